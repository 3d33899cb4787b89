package credential

import (
	"errors"
	"fmt"
	"net"
	"path"
	"strings"

	"github.com/distribution/reference"
)

// Image holds the parts of an image reference that decide which credentials match.
type Image struct {
	// Reference is the reference as given; plugins receive it.
	Reference string
	// host is the registry with its port; path begins with a slash.
	host, path string
}

// ParseImage parses an image reference. The default registry is docker.io.
func ParseImage(image string) (Image, error) {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return Image{}, fmt.Errorf("invalid image reference %q: %w", image, err)
	}
	return Image{Reference: image, host: reference.Domain(named), path: "/" + reference.Path(named)}, nil
}

// pattern matches a registry, with globs in the labels of its host, and a prefix of
// the path.
type pattern struct {
	host, port, path string
}

// dockerHubAliases are the names under which credentials for docker.io are stored.
var dockerHubAliases = map[string]bool{"index.docker.io": true, "registry-1.docker.io": true,
	"registry.hub.docker.com": true}

// parsePattern reads HOST[:PORT][/PATH], with or without a scheme and with
// docker's /v1/ and /v2/.
func parsePattern(text string) (pattern, error) {
	for _, scheme := range []string{"https://", "http://"} {
		text = strings.TrimPrefix(text, scheme)
	}
	host, rest, _ := strings.Cut(text, "/")
	var p pattern
	p.host, p.port = splitPort(host)
	if p.host == "" {
		return p, errors.New("no registry; want a host such as registry.example.com")
	}
	if _, err := path.Match(p.host, ""); err != nil || strings.ContainsAny(p.host, " @?#") {
		return p, errors.New("invalid registry; want a host such as registry.example.com or *.example.com")
	}
	if dockerHubAliases[p.host] {
		p.host = "docker.io"
	}
	rest = "/" + strings.TrimSuffix(rest, "/")
	for _, version := range []string{"/v1", "/v2"} {
		if after, ok := strings.CutPrefix(rest, version); ok && (after == "" || after[0] == '/') {
			rest = after
			break
		}
	}
	p.path = strings.TrimSuffix(rest, "/")
	return p, nil
}

func splitPort(host string) (name, port string) {
	if name, port, err := net.SplitHostPort(host); err == nil {
		return name, port
	}
	if ip, ok := strings.CutPrefix(host, "["); ok && strings.HasSuffix(ip, "]") {
		host = strings.TrimSuffix(ip, "]")
	}
	return host, ""
}

// matches compares as the kubelet does: each label, the port, and the prefix of the
// path.
func (p pattern) matches(image Image) bool {
	host, port := splitPort(image.host)
	if port != p.port || !strings.HasPrefix(image.path, p.path) {
		return false
	}
	globs, labels := strings.Split(p.host, "."), strings.Split(host, ".")
	if len(globs) != len(labels) {
		return false
	}
	for i, glob := range globs {
		if ok, err := path.Match(glob, labels[i]); err != nil || !ok {
			return false
		}
	}
	return true
}

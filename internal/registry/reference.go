package registry

import (
	"fmt"
	"net"
	"net/netip"
	"strings"

	_ "crypto/sha256" // digests of references
	_ "crypto/sha512" // digests of references
	"github.com/distribution/reference"
)

// Reference names a manifest in a registry. The zero value names nothing.
type Reference struct {
	// Host is the registry with its port, as in registry.example.com:5000. Docker Hub is
	// docker.io.
	Host string
	// Repository is the path below the host.
	Repository string
	// Tag is empty in a reference by digest alone.
	Tag string
	// Digest is ALGORITHM:HEX, empty in a reference by tag. With both, the digest decides.
	Digest string
}

// Parse parses a reference as image references are written: a short name is one of
// docker.io, and latest is the default tag. The error quotes the text and reports what is
// right.
func Parse(text string) (Reference, error) {
	named, err := reference.ParseNormalizedNamed(text)
	if err != nil {
		return Reference{}, fmt.Errorf("%q is not a valid reference (%w): write it as HOST/REPOSITORY:TAG, in lower case "+
			"except for the tag", text, err)
	}
	r := Reference{Host: reference.Domain(named), Repository: reference.Path(named)}
	if digested, ok := named.(reference.Digested); ok {
		r.Digest = digested.Digest().String()
	}
	if r.Digest == "" {
		named = reference.TagNameOnly(named)
	}
	if tagged, ok := named.(reference.Tagged); ok {
		r.Tag = tagged.Tag()
	}
	return r, nil
}

// Name returns HOST/REPOSITORY.
func (r Reference) Name() string { return r.Host + "/" + r.Repository }

// String returns the reference in full.
func (r Reference) String() string {
	text := r.Name()
	if r.Tag != "" {
		text += ":" + r.Tag
	}
	if r.Digest != "" {
		text += "@" + r.Digest
	}
	return text
}

// WithTag returns the reference of a tag in the same repository.
func (r Reference) WithTag(tag string) Reference {
	r.Tag, r.Digest = tag, ""
	return r
}

// WithDigest returns the reference with a digest; the tag remains for display.
func (r Reference) WithDigest(digest string) Reference {
	r.Digest = digest
	return r
}

// IsLoopback reports whether a host with or without a port is this machine, which is
// reached without TLS, as container runtimes do.
func IsLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	address, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return strings.EqualFold(host, "localhost") || err == nil && address.IsLoopback()
}

package kubeversion

import "strings"

// Release is the Kubernetes release of k8s.io/api in go.mod, with major and minor version
// alone, as the API's /version shows them.
const (
	Release = "v" + Major + "." + Minor + ".6"
	Major   = "1"
	Minor   = "36"
)

// Semantic returns the version that podstead reports where Kubernetes expects a component's:
// Release, with podstead's own version as build metadata. It is a semantic version whatever
// podstead's version is, because kubeadm rejects all upgrades of a cluster with a node whose
// version it cannot parse.
func Semantic(version string) string {
	if rest, ok := strings.CutPrefix(version, "v"); ok && rest != "" && '0' <= rest[0] && rest[0] <= '9' {
		version = rest
	}
	return Release + "+podstead-" + metadata(version)
}

// metadata returns a text as build metadata: identifiers of ASCII letters, digits and hyphens,
// separated by single dots. A plus, which starts the metadata of the text itself, becomes a
// dot, and every other character a hyphen.
func metadata(text string) string {
	clean := strings.Map(func(r rune) rune {
		switch {
		case r == '+' || r == '.':
			return '.'
		case '0' <= r && r <= '9', 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z':
			return r
		}
		return '-'
	}, text)
	identifiers := strings.FieldsFunc(clean, func(r rune) bool { return r == '.' })
	if len(identifiers) == 0 {
		return "unknown"
	}
	return strings.Join(identifiers, ".")
}

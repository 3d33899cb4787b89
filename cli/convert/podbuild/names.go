package podbuild

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Name returns a valid name of a pod, an object or a volume that is as near as possible to a name
// of another system: a DNS label in lower case.
func Name(name string) string {
	valid := func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}
	name = strings.Map(valid, name)
	if len(name) > validation.DNS1123LabelMaxLength {
		name = name[:validation.DNS1123LabelMaxLength]
	}
	if name = strings.Trim(name, "-"); name == "" {
		return "x"
	}
	return name
}

// Key returns a valid key of a ConfigMap or Secret.
func Key(name string) string {
	valid := func(r rune) rune {
		if r < 0x80 && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			strings.ContainsRune("-_.", r)) {
			return r
		}
		return '-'
	}
	if name = strings.Map(valid, name); name == "" || len(validation.IsConfigMapKey(name)) > 0 {
		return "content"
	}
	return name
}

// IsAnnotation reports whether a name is a valid key of an annotation.
func IsAnnotation(name string) bool {
	return len(validation.IsQualifiedName(strings.ToLower(name))) == 0
}

package registry

import (
	"errors"
	"strings"
	"testing"
)

// A manifest of a few MB does not become hundreds of MB in memory.
func TestManifestOfManyLayers(t *testing.T) {
	for _, value := range []string{"{}", "null", "0"} {
		data := `{"layers":[` + strings.Repeat(value+",", 1<<20) + value + `]}`
		if _, err := parseManifest(TypeManifest, someDigest, []byte(data)); !errors.Is(err, ErrTooLarge) {
			t.Errorf("a million times %s: %v", value, err)
		}
	}
	if m, err := parseManifest(TypeManifest, someDigest, []byte(`{"layers":[{},{}]}`)); err != nil || len(m.Layers) != 2 {
		t.Errorf("two layers: %+v (%v)", m, err)
	}
}

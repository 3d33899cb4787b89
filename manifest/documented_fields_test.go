package manifest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/podstead/podstead/manifest/validation"
)

// Each field that docs/pod-spec.md names as supported is set in a manifest that is accepted: a
// rule of validation must not reject what the table of fields declares as supported.
func TestEverySupportedFieldIsAccepted(t *testing.T) {
	set := map[string]bool{}
	for _, pattern := range []string{"testdata/documented/*", "testdata/corpus/*", "testdata/pods/*",
		"../examples/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: no manifests: %v", pattern, err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, faults := loadText(ModeStrict, string(data))
			switch {
			case !faults.Fatal():
			case strings.HasPrefix(file, "testdata/documented/"):
				t.Errorf("%s: %v", file, faults)
				continue
			default: // the faulty manifests of the corpus
				continue
			}
			for _, document := range regexp.MustCompile(`(?m)^---.*$`).Split(string(data), -1) {
				var tree any
				if err := yaml.Unmarshal([]byte(document), &tree); err != nil {
					t.Fatalf("%s: %v", file, err)
				}
				collectFields(set, nil, tree)
			}
		}
	}
	paths := make([]string, 0, len(set))
	for path := range set {
		paths = append(paths, path)
	}
	for _, f := range validation.Fields() {
		if f.Kind == validation.FieldSupported && !slices.ContainsFunc(paths, fieldPattern(f.Path).MatchString) {
			t.Errorf("no valid manifest sets %s", f.Path)
		}
	}
}

// fieldSeparator is between the names in a path of collectFields; keys of maps may have dots.
const fieldSeparator = "\n"

// collectFields adds the paths of all values in a document that are not empty.
func collectFields(set map[string]bool, path []string, tree any) {
	switch tree := tree.(type) {
	case map[string]any:
		for key, value := range tree {
			collectFields(set, append(slices.Clip(path), key), value)
		}
	case []any:
		for _, value := range tree {
			collectFields(set, append(slices.Clip(path), "[]"), value)
		}
	default:
		set[strings.Join(path, fieldSeparator)] = true
	}
}

// fieldPattern returns the pattern of the paths of collectFields for a path of validation.Fields.
func fieldPattern(path string) *regexp.Regexp {
	var pattern strings.Builder
	for _, part := range regexp.MustCompile(`\[[^\]]*\]|[^.\[]+`).FindAllString(path, -1) {
		if pattern.Len() > 0 {
			pattern.WriteString(fieldSeparator)
		}
		key := strings.Trim(part, "[]")
		switch {
		case part == "[]":
			pattern.WriteString(`\[\]`)
		case key == "key":
			pattern.WriteString(`[^\n]+`)
		default:
			pattern.WriteString(strings.ReplaceAll(regexp.QuoteMeta(key), `\*`, `[^\n]*`))
		}
	}
	return regexp.MustCompile("^" + pattern.String() + "$")
}

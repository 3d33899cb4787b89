package harness

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/podstead/podstead/test/testbed"
)

// PageDocuments returns the YAML documents of a section of a page of the documentation.
func PageDocuments(t *testing.T, page, section string) (documents []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(testbed.SourceRoot(), "docs", page))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "\n## "+section+"\n")
	if !found {
		t.Fatalf("docs/%s has no section %q", page, section)
	}
	rest, _, _ = strings.Cut(rest, "\n## ")
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(rest, -1) {
		documents = append(documents, block[1])
	}
	return documents
}

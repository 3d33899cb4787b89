package kubeletconfig

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// Each field that operations.md lists as supported is read.
func TestDocumentedFieldsAreRead(t *testing.T) {
	data, err := os.ReadFile("../../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, ok := strings.Cut(string(data), "Supported fields:")
	if !ok {
		t.Fatal("no list of supported fields")
	}
	list, _, _ = strings.Cut(list, "\n\n")
	found := 0
	for _, match := range regexp.MustCompile("`([a-z][A-Za-z]*)(\\.[A-Za-z.]*)?`").FindAllStringSubmatch(list, -1) {
		if match[1] == "pods" || match[1] == "none" {
			continue // values
		}
		found++
		read := false
		for _, group := range []map[string]func(*parser, string, any){fields, cgroupFields, shutdownFields, evictionFields, remoteFields, nodeFields} {
			read = read || group[match[1]] != nil
		}
		if !read {
			t.Errorf("the field %s is not read", match[1])
		}
	}
	if found < 30 {
		t.Errorf("only %d fields found", found)
	}
}

package architecture

import (
	"go/ast"
	"strings"
	"testing"
)

// Manifests are changed in one place, manifest/change, which checks where an object comes from and what is written.
// Others use the types of manifest/edit, but read no manifest directory with it, without which nothing can be written.
func TestManifestsAreChangedInOnePlace(t *testing.T) {
	found := false
	sources(t, func(path string, file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			if e, ok := n.(ast.Expr); ok && selector(e) == "edit.Read" {
				found = true
				if !strings.HasPrefix(path, "manifest/change/") {
					t.Errorf("%s reads manifests to change them: use manifest/change", path)
				}
			}
			return true
		})
	})
	if !found {
		t.Error("no reader of manifests was found")
	}
}

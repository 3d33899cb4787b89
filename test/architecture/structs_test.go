package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// maxFields is how many fields a struct of the product may have without a reason.
const maxFields = 15

// A struct with many fields is either several things, or its comment gives the reason
// in a sentence about its fields.
func TestLargeStructsGiveTheReason(t *testing.T) {
	structs := 0
	for _, p := range product(t) {
		directory, ok := directoryOf(p.ImportPath)
		if !ok || below(directory, "test") {
			continue
		}
		entries, err := os.ReadDir(p.Dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			if !strings.HasSuffix(entry.Name(), ".go") || strings.HasSuffix(entry.Name(), "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, entry.Name()), nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				decl, ok := n.(*ast.GenDecl)
				if !ok {
					return true
				}
				for _, spec := range decl.Specs {
					ts, ok := spec.(*ast.TypeSpec)
					if !ok {
						continue
					}
					st, ok := ts.Type.(*ast.StructType)
					if !ok {
						continue
					}
					structs++
					comment := decl.Doc.Text() + ts.Doc.Text()
					if n := st.Fields.NumFields(); n > maxFields && !strings.Contains(comment, "field") {
						t.Errorf("%s/%s: %s has %d fields, more than %d; split it, or say in its comment why it has that many fields",
							directory, entry.Name(), ts.Name.Name, n, maxFields)
					}
				}
				return true
			})
		}
	}
	if structs < 100 {
		t.Fatalf("found only %d structs", structs)
	}
}

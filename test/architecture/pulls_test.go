package architecture

import (
	"go/ast"
	"testing"
)

// What is pulled or loaded is synced to the disk before it is used, for every caller: everything that pulls or loads
// does so through package imagestore, and not through the client of the runtime, which has the same methods.
func TestImagesComeThroughTheImageStore(t *testing.T) {
	missing := map[string]bool{"imageload.Config.Images": true, "imageview.View.Service": true, "cri.ImageConfig.Runtime": true,
		"cri.PullImage": true}
	check := func(path, use string, service ast.Expr) {
		delete(missing, use)
		if got := selector(service); got != "d.images" {
			t.Errorf("%s: %s is %q, must be d.images", path, use, got)
		}
	}
	uses := map[string]bool{}
	for use := range missing {
		uses[use] = true
	}
	sources(t, func(path string, file *ast.File) {
		if file.Name.Name != "daemon" {
			return
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CompositeLit:
				for _, e := range n.Elts {
					field, ok := e.(*ast.KeyValueExpr)
					if !ok {
						continue
					}
					name, _ := field.Key.(*ast.Ident)
					if name != nil && uses[selector(n.Type)+"."+name.Name] {
						check(path, selector(n.Type)+"."+name.Name, field.Value)
					}
				}
			case *ast.CallExpr:
				if selector(n.Fun) == "cri.PullImage" && len(n.Args) > 1 {
					check(path, "cri.PullImage", n.Args[1])
				}
			}
			return true
		})
	})
	for use := range missing {
		t.Errorf("%s was not found in package daemon", use)
	}
}

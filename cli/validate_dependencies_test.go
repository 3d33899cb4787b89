package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

func TestValidateDependencies(t *testing.T) {
	t.Parallel()
	pod := func(name, dependsOn string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata:\n  name: %s\n  namespace: shop\n  annotations:\n    "+
			"podstead.io/depends-on: %q\nspec:\n  containers:\n  - name: c\n    image: b:1\n", name, dependsOn)
	}
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	a := write("a.yaml", pod("a", "b"))
	write("b.yaml", pod("b", "c, gone"))
	write("c.yaml", pod("c", "a"))
	write("d.yaml", pod("d", "a"))
	_, errs, err := execute(t, "", "validate", dir)
	want := a +
		`: Pod shop/a: metadata.annotations[podstead.io/depends-on]: "b" makes the pod depend on itself through shop/a ▸ shop/b ▸ shop/c ▸ shop/a; remove one of these dependencies
warning: ` + dir +
		`/b.yaml: Pod shop/b: metadata.annotations[podstead.io/depends-on]: "c, gone" names pod shop/gone, which no given manifest declares; correct the name, or add the manifest
`
	if Code(err) != ExitFailed || errs != want {
		t.Errorf("got %v\n%s\nwant\n%s", err, errs, want)
	}
	// A single file is not expected to be complete.
	if _, errs, err := execute(t, "", "validate", a); err != nil || errs != "" {
		t.Errorf("got %v %s", err, errs)
	}
	bad := write("bad.yaml", pod("bad", "Db"))
	_, errs, err = execute(t, "", "validate", bad)
	want = bad +
		`:7: Pod shop/bad: metadata.annotations[podstead.io/depends-on]: "Db" is not valid; entry "Db" is not the name of a pod; must be NAME or NAMESPACE/NAME of a manifest, such as db or other-namespace/cache
`
	if Code(err) != ExitFailed || errs != want {
		t.Errorf("got %v\n%s\nwant\n%s", err, errs, want)
	}
	self := write("self.yaml", pod("self", "shop/self"))
	_, errs, err = execute(t, "", "validate", self)
	want = self +
		`:7: Pod shop/self: metadata.annotations[podstead.io/depends-on]: "shop/self" is not valid; names the pod itself, which would never start; remove the name
`
	if Code(err) != ExitFailed || errs != want {
		t.Errorf("got %v\n%s\nwant\n%s", err, errs, want)
	}
}

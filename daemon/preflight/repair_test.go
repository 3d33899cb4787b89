package preflight

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each command runs once, for however many findings, and what it has changed is checked: a fix without an effect, one
// that fails, and the finding that a fix reveals are reported.
func TestRepair(t *testing.T) {
	dir := t.TempDir()
	exists := func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return err == nil
	}
	const nothing = "echo 'I am sure'"
	create := func(name string) string { return "echo >" + filepath.Join(dir, name) }
	check := func() (list []Finding) {
		if !exists("a") {
			list = append(list, Finding{Check: "a", Message: "no a", Repair: create("a")},
				Finding{Check: "again", Message: "no a either", Repair: create("a")})
		}
		list = append(list, Finding{Check: "b", Message: "no b", Repair: nothing}, Finding{Check: "c", Fix: "decide"},
			Finding{Check: "d", Message: "no d", Repair: "exit 3"})
		if exists("a") && !exists("e") {
			list = append(list, Finding{Check: "e", Message: "revealed", Repair: create("e")})
		}
		return list
	}
	var out strings.Builder
	list := Repair(t.Context(), &out, check)
	want := "+ " + create("a") + "\na: fixed\n+ " + nothing + "\nI am sure\nb: the fix has changed nothing: no b\n" +
		"+ exit 3\nd: the fix failed: exit status 3\n+ " + create("e") + "\ne: fixed\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &out, want)
	}
	var repaired []string
	for _, f := range list {
		if f.Repaired {
			repaired = append(repaired, f.Check)
		}
	}
	if got := strings.Join(repaired, " "); len(list) != 3 || got != "b d" {
		t.Errorf("%d findings are left, commands were run for %q", len(list), got)
	}
}

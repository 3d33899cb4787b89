package rollout

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"unicode"
)

// TestTransitionTableIsDocumented compares doc.go with the table.
func TestTransitionTableIsDocumented(t *testing.T) {
	source, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	var documented, table []string
	for line := range strings.Lines(string(source)) {
		if row, ok := strings.CutPrefix(line, "//\t"); ok {
			documented = append(documented, strings.Join(strings.Fields(row), " "))
		}
	}
	name := func(s State) string {
		if s == none {
			return "none"
		}
		return string(unicode.ToLower(rune(s[0]))) + string(s[1:])
	}
	for _, tr := range transitions {
		table = append(table, fmt.Sprintf("%s %s %s", name(tr.from), tr.on, name(tr.to)))
	}
	if got, want := strings.Join(documented, "\n"), strings.Join(table, "\n"); got != want {
		t.Errorf("doc.go:\n%s\ntable:\n%s", got, want)
	}
}

// Each pair of a state and a trigger has at most one row, every state can be reached,
// left by a removal of the manifest, and left by another choice.
func TestTransitionTableIsComplete(t *testing.T) {
	rows, reached := map[string]int{}, map[State]bool{none: true}
	for _, tr := range transitions {
		rows[string(tr.from)+" "+string(tr.on)]++
		reached[tr.to] = true
	}
	for pair, n := range rows {
		if n != 1 {
			t.Errorf("%s has %d rows", pair, n)
		}
	}
	for _, s := range []State{Stable, Preparing, Progressing, RollingBack, RolledBack, Undone} {
		if !reached[s] {
			t.Errorf("%s is never reached", s)
		}
		for _, on := range []trigger{onChoose, onRevert, onRemove} {
			if _, ok := next(s, on); !ok {
				t.Errorf("%s ignores %s", s, on)
			}
		}
	}
	if to, ok := next(Stable, onPrepared); ok {
		t.Errorf("a revision that nothing prepared leads to %s", to)
	}
}

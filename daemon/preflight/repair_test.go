package preflight

import (
	"strings"
	"testing"
)

// A command runs once, for however many findings and checks; a later check can add others.
func TestFixRunsEachCommandOnce(t *testing.T) {
	first := []Finding{
		{Check: "a", Repair: "echo one"}, {Check: "b", Repair: "echo one"}, {Check: "c", Fix: "decide"},
		{Check: "d", Repair: "exit 3"},
	}
	var out strings.Builder
	ran := map[string]bool{}
	if !Repair(t.Context(), &out, first, ran) {
		t.Error("no command was run")
	}
	if want := "+ echo one\none\n+ exit 3\nd: the fix failed: exit status 3\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
	out.Reset()
	if Repair(t.Context(), &out, first, ran) || out.String() != "" {
		t.Errorf("commands were run again: %q", out.String())
	}
	if !Repair(t.Context(), &out, append(first, Finding{Check: "e", Repair: "echo two"}), ran) ||
		out.String() != "+ echo two\ntwo\n" {
		t.Errorf("%q", out.String())
	}
}

package wait

import (
	"bytes"
	"strings"
	"testing"

	"github.com/podstead/podstead/cli/objects"
	"github.com/podstead/podstead/cli/terminal"
)

// The conditions are evaluated every second: the cause that was found is shown each time, in
// one line.
func TestTheCauseStays(t *testing.T) {
	o, err := objects.NewObject([]byte(`{"metadata": {"name": "web"}}`))
	if err != nil {
		t.Fatal(err)
	}
	o.Cause = `CrashLoopBackOff: "no such table"`
	waits := func(*objects.Object) (bool, string, error) { return false, "CrashLoopBackOff", nil }
	var shown bytes.Buffer
	w := &Waiter{Kind: objects.PodKind(), Out: &bytes.Buffer{},
		Targets: []*Target{{Name: "web", Condition: waits, object: o, explained: o}}}
	p := terminal.NewProgress(&shown)
	for range 2 {
		if err := w.evaluate(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	if got := shown.String(); !strings.Contains(got, "no such table") || strings.Count(got, "\n") != 1 {
		t.Errorf("shown: %q", got)
	}
}

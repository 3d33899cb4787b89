package supervisor

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/podstead/podstead/cri"
)

// TestTransitionTableIsDocumented holds the comment against the table.
func TestTransitionTableIsDocumented(t *testing.T) {
	source, err := os.ReadFile("transitions.go")
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for line := range strings.Lines(string(source)) {
		if row, ok := strings.CutPrefix(line, "//\t"); ok {
			documented = append(documented, strings.Join(strings.Fields(row), " "))
		}
	}
	var table []string
	for _, tr := range transitions {
		row := fmt.Sprintf("%s %s %s", tr.from, tr.on, tr.to)
		if tr.newRun {
			row += " (new run)"
		}
		table = append(table, row)
	}
	if got, want := strings.Join(documented, "\n"), strings.Join(table, "\n"); got != want {
		t.Errorf("comment:\n%s\ntable:\n%s", got, want)
	}
}

// TestTransitionsGoDown: no move leads up within a run, and every state but
// none can be reached and left.
func TestTransitionsGoDown(t *testing.T) {
	reached, left := map[state]bool{}, map[state]bool{}
	for _, tr := range transitions {
		reached[tr.to], left[tr.from] = true, true
		if tr.to < tr.from && !tr.newRun && tr.on != onForget {
			t.Errorf("%s on %s goes up to %s", tr.from, tr.on, tr.to)
		}
		if tr.newRun && tr.from != stateFinished {
			t.Errorf("%s on %s begins a new run of a pod that has not finished", tr.from, tr.on)
		}
	}
	for s := stateNone; s < stateCount; s++ {
		if !reached[s] || !left[s] {
			t.Errorf("%s: reached %v, left %v", s, reached[s], left[s])
		}
	}
}

// TestTransitionTableIsTheCode drives a real worker into each state, applies
// each trigger through the methods that the sync loop uses, and compares where
// it stands with the table.
func TestTransitionTableIsTheCode(t *testing.T) {
	outside := map[trigger]func(*workersBed){
		onUpdate: func(b *workersBed) { b.p.update(testPod("web", "u1", "r1")) },
		onKill:   func(b *workersBed) { b.p.remove("u1") },
		onRerun:  func(b *workersBed) { _ = b.rerun("u1") },
		onOrphan: func(b *workersBed) { b.p.orphan(&cri.Pod{UID: "u1", Name: "web", Namespace: "default"}) },
		onStart:  func(b *workersBed) { b.end("u0") },
		onEnded:  func(b *workersBed) { b.release("u1", syncResult{ended: true}) },
		onStopped: func(b *workersBed) {
			b.releaseIf("u1", stateTerminating)
		},
		onCleaned: func(b *workersBed) { b.releaseIf("u1", stateTerminated) },
	}
	for from := stateNone; from < stateCount; from++ {
		for on, apply := range outside {
			want := from
			if row := next(from, on); row != nil {
				want = row.to
			}
			switch {
			case on == onRerun && from == stateFinished:
				// The name is free, so that the new run starts at once.
				want = stateSyncing
			case on == onUpdate && from == stateNone:
				// The name is taken here by u0.
				want = stateQueued
			case on == onKill && from == stateFinished:
				// Nothing is left of it: it is forgotten in the same breath.
				want = stateFinished
			}
			t.Run(fmt.Sprintf("%s/%s", from, on), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := newWorkersBed(t)
					b.into("u1", from)
					apply(b)
					synctest.Wait()
					if got := b.p.state("u1"); got != want {
						t.Errorf("%s on %s: %s, want %s", from, on, got, want)
					}
				})
			})
		}
	}
}

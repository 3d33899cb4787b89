package podworkers

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
)

// TestTransitionTableIsDocumented compares doc.go with the table.
func TestTransitionTableIsDocumented(t *testing.T) {
	source, err := os.ReadFile("doc.go")
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
		t.Errorf("doc.go:\n%s\ntable:\n%s", got, want)
	}
}

// TestTransitionsNeverGoBack checks that no transition within a run leads to an
// earlier state, and that every state can be reached and left.
func TestTransitionsNeverGoBack(t *testing.T) {
	reached, left := map[State]bool{}, map[State]bool{}
	for _, tr := range transitions {
		reached[tr.to], left[tr.from] = true, true
		if tr.to < tr.from && !tr.newRun && tr.on != onForget {
			t.Errorf("%s on %s goes back to %s", tr.from, tr.on, tr.to)
		}
		if tr.newRun && tr.from != Finished {
			t.Errorf("%s on %s begins a new run of a pod that has not finished", tr.from, tr.on)
		}
	}
	for s := None; s < stateCount; s++ {
		if !reached[s] || !left[s] {
			t.Errorf("%s: reached %v, left %v", s, reached[s], left[s])
		}
	}
}

// TestTransitionTableMatchesTheCode brings a worker into each state, applies each
// trigger through the methods that the sync loop uses, and compares the resulting
// state with the table.
func TestTransitionTableMatchesTheCode(t *testing.T) {
	triggers := map[trigger]func(*workersHarness){
		onUpdate:  func(h *workersHarness) { h.workers.Update(testPod("web", "u1", "r1")) },
		onKill:    func(h *workersHarness) { h.workers.Remove("u1") },
		onRestart: func(h *workersHarness) { _ = h.restart("u1") },
		onOrphan:  func(h *workersHarness) { h.workers.Orphan(testPod("web", "u1", ""), 30) },
		onStart:   func(h *workersHarness) { h.end("u0") },
		onEnded:   func(h *workersHarness) { h.finish("u1", SyncResult{Ended: true}) },
		onStopped: func(h *workersHarness) {
			h.finishIf("u1", Terminating)
		},
		onCleaned: func(h *workersHarness) { h.finishIf("u1", Terminated) },
	}
	for from := None; from < stateCount; from++ {
		for on, apply := range triggers {
			want := from
			if row := next(from, on); row != nil {
				want = row.to
			}
			switch {
			case on == onRestart && from == Finished:
				// The name is free, so that the new run starts at once.
				want = Syncing
			case on == onUpdate && from == None:
				// The name is held by u0 here.
				want = Queued
			case on == onKill && from == Finished:
				// Nothing of it is left: it is forgotten immediately.
				want = Finished
			}
			t.Run(fmt.Sprintf("%s/%s", from, on), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := newWorkersHarness(t)
					h.bringTo("u1", from)
					apply(h)
					synctest.Wait()
					if got := h.workers.State("u1"); got != want {
						t.Errorf("%s on %s: %s, want %s", from, on, got, want)
					}
				})
			})
		}
	}
}

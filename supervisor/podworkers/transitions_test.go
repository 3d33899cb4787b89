package podworkers

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
)

// TestTransitionTableIsDocumented holds the comment against the table.
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
		t.Errorf("comment:\n%s\ntable:\n%s", got, want)
	}
}

// TestTransitionsGoDown: no move leads up within a run, and every state but
// none can be reached and left.
func TestTransitionsGoDown(t *testing.T) {
	reached, left := map[State]bool{}, map[State]bool{}
	for _, tr := range transitions {
		reached[tr.to], left[tr.from] = true, true
		if tr.to < tr.from && !tr.newRun && tr.on != onForget {
			t.Errorf("%s on %s goes up to %s", tr.from, tr.on, tr.to)
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

// TestTransitionTableIsTheCode drives a real worker into each state, applies
// each trigger through the methods that the sync loop uses, and compares where
// it stands with the table.
func TestTransitionTableIsTheCode(t *testing.T) {
	outside := map[trigger]func(*workersBed){
		onUpdate:  func(b *workersBed) { b.p.Update(testPod("web", "u1", "r1")) },
		onKill:    func(b *workersBed) { b.p.Remove("u1") },
		onRestart: func(b *workersBed) { _ = b.rerun("u1") },
		onOrphan:  func(b *workersBed) { b.p.Orphan(testPod("web", "u1", ""), 30) },
		onStart:   func(b *workersBed) { b.end("u0") },
		onEnded:   func(b *workersBed) { b.release("u1", SyncResult{Ended: true}) },
		onStopped: func(b *workersBed) {
			b.releaseIf("u1", Terminating)
		},
		onCleaned: func(b *workersBed) { b.releaseIf("u1", Terminated) },
	}
	for from := None; from < stateCount; from++ {
		for on, apply := range outside {
			want := from
			if row := next(from, on); row != nil {
				want = row.to
			}
			switch {
			case on == onRestart && from == Finished:
				// The name is free, so that the new run starts at once.
				want = Syncing
			case on == onUpdate && from == None:
				// The name is taken here by u0.
				want = Queued
			case on == onKill && from == Finished:
				// Nothing is left of it: it is forgotten in the same breath.
				want = Finished
			}
			t.Run(fmt.Sprintf("%s/%s", from, on), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := newWorkersBed(t)
					b.into("u1", from)
					apply(b)
					synctest.Wait()
					if got := b.p.State("u1"); got != want {
						t.Errorf("%s on %s: %s, want %s", from, on, got, want)
					}
				})
			})
		}
	}
}

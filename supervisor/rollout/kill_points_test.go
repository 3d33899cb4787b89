package rollout

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/internal/statefile/statefiletest"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/supervisor/status"
)

// course is one pod in the course of its rollouts.
type course struct {
	*imagesHarness
	// manifest is the newest one; nil if it was removed, or is not there yet.
	manifest *v1.Pod
}

// moves are the transitions that a Controller logged, as rows of the table.
type moves struct {
	rows map[string]bool
}

func (m *moves) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "Rollout changed" {
		row := map[string]string{}
		r.Attrs(func(a slog.Attr) bool { row[a.Key] = a.Value.String(); return true })
		m.rows[row["from"]+" "+row["trigger"]+" "+row["to"]] = true
	}
	return nil
}
func (m *moves) Enabled(context.Context, slog.Level) bool { return true }
func (m *moves) WithAttrs([]slog.Attr) slog.Handler       { return m }
func (m *moves) WithGroup(string) slog.Handler            { return m }

// revisionPod is a revision of the pod, which is rolled back after an hour. The label is
// changed in place.
func revisionPod(name, label string) *v1.Pod {
	pod := manifestPod(types.UID("uid-"+name), "r.test/web:"+name)
	pod.Labels = map[string]string{"label": label}
	pod.Annotations = map[string]string{
		podinfo.AnnotationSource: "file", podinfo.AnnotationRollbackAfter: "1h",
		podinfo.AnnotationHash: name + label, podinfo.AnnotationTemplate: name,
	}
	return pod
}

// settle waits until all is written and on the disk, and a Ready revision is proven.
func (c *course) settle() {
	time.Sleep(minReady + 5*time.Second)
	synctest.Wait()
}

// deliver starts the pod, or edits its manifest.
func (c *course) deliver(name string) {
	pod := revisionPod(name, "")
	if c.manifest == nil {
		c.manifest = pod
		c.start(pod)
		return
	}
	before := c.manifest
	c.manifest = pod
	c.edit(before, pod)
}

// relabel changes the pod in place.
func (c *course) relabel() {
	name, _ := strings.CutPrefix(string(c.manifest.UID), "uid-")
	c.manifest = revisionPod(name, "x")
	c.updates <- manifest.PodUpdate{Op: manifest.Update, Source: manifest.SourceFile, Pods: []*v1.Pod{c.manifest}}
	synctest.Wait()
}

func (c *course) remove() {
	c.updates <- manifest.PodUpdate{Op: manifest.Remove, Source: manifest.SourceFile, Pods: []*v1.Pod{c.manifest}}
	c.manifest = nil
	synctest.Wait()
}

// late lets the deadline of a revision pass that runs.
func (c *course) late() {
	time.Sleep(time.Hour)
	synctest.Wait()
}

func (c *course) ready() { c.observe(true, 0, "") }
func (c *course) crash() { c.observe(false, 3, "CrashLoopBackOff") }

// hold makes preparations fail, and pass lets them succeed.
func (c *course) hold() { c.refuse(&status.Cause{Reason: "ErrImagePull", Message: "not found"}) }
func (c *course) pass() {
	c.refuse(nil)
	c.ctl.RetryPreparations()
	synctest.Wait()
}

// request makes a request of the Controller.
func (c *course) request(do func(fullName string) error) {
	c.t.Helper()
	if err := do("default/web-n1"); err != nil {
		c.t.Error(err)
	}
	synctest.Wait()
}

func (c *course) undo()  { c.request(func(name string) error { return c.ctl.Undo(name, "") }) }
func (c *course) retry() { c.request(c.ctl.Retry) }

// into brings a pod into each state, a the last revision that was Ready but for Undone, where b was.
var into = map[State]func(c *course){
	none: func(*course) {},
	Stable: func(c *course) {
		c.deliver("a")
		c.ready()
	},
	Preparing: func(c *course) {
		c.deliver("a")
		c.ready()
		c.hold()
		c.deliver("b")
	},
	Progressing: func(c *course) {
		c.deliver("a")
		c.ready()
		c.deliver("b")
		c.observe(false, 0, "")
	},
	RollingBack: func(c *course) {
		c.deliver("a")
		c.ready()
		c.deliver("b")
		c.observe(false, 0, "")
		c.hold()
		c.late()
	},
	RolledBack: func(c *course) {
		c.deliver("a")
		c.ready()
		c.deliver("b")
		c.crash()
		c.observe(false, 0, "")
	},
	Undone: func(c *course) {
		c.deliver("a")
		c.ready()
		c.deliver("b")
		c.ready()
		c.settle()
		c.undo()
		c.ready()
	},
}

// acts bring about each transition of the table, by its row.
var acts = map[string]func(c *course){
	" add Progressing":                func(c *course) { c.deliver("a") },
	"Stable choose Preparing":         func(c *course) { c.hold(); c.deliver("c") },
	"Progressing choose Preparing":    func(c *course) { c.hold(); c.deliver("c") },
	"RolledBack choose Preparing":     func(c *course) { c.hold(); c.deliver("c") },
	"Undone choose Preparing":         func(c *course) { c.hold(); c.deliver("c") },
	"Preparing choose Preparing":      func(c *course) { c.deliver("c") },
	"RollingBack choose Preparing":    func(c *course) { c.deliver("c") },
	"Preparing revert Progressing":    func(c *course) { c.deliver("a") },
	"RollingBack revert Progressing":  func(c *course) { c.retry() },
	"RolledBack revert Progressing":   func(c *course) { c.deliver("a") },
	"Undone revert Progressing":       func(c *course) { c.deliver("a") },
	"Stable revert Progressing":       func(c *course) { c.relabel() },
	"Progressing revert Progressing":  func(c *course) { c.relabel() },
	"Preparing prepared Progressing":  func(c *course) { c.pass() },
	"RollingBack prepared RolledBack": func(c *course) { c.pass() },
	"Progressing settled Stable":      func(c *course) { c.ready(); c.settle() },
	"Progressing pinned Undone":       func(c *course) { c.undo() },
	"Progressing failed RollingBack":  func(c *course) { c.hold(); c.late() },
	"RolledBack failed RolledBack":    func(c *course) { c.crash() },
	"Stable remove ":                  func(c *course) { c.remove() },
	"Preparing remove ":               func(c *course) { c.remove() },
	"Progressing remove ":             func(c *course) { c.remove() },
	"RollingBack remove ":             func(c *course) { c.remove() },
	"RolledBack remove ":              func(c *course) { c.remove() },
	"Undone remove ":                  func(c *course) { c.remove() },
}

// attempt is what came of a transition during which a fault occurred.
type attempt struct {
	operations []string
	// before and after are the last good revisions in memory, restored what the next
	// daemon makes of the disk.
	before, after string
	restored      string
	lastGood      string
	moves         map[string]bool
}

// try brings a pod into a state, and causes a transition during which a fault occurs, and
// starts another daemon.
func try(t *testing.T, tr transition, f statefiletest.Fault, at int) (got attempt) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		seen := &moves{rows: map[string]bool{}}
		c := &course{imagesHarness: &imagesHarness{t: t, dir: t.TempDir(), after: time.Minute, log: slog.New(seen)}}
		lastGood := func() string {
			st, _ := c.ctl.StatusOf("default/web-n1")
			return st.LastGood
		}
		into[tr.from](c)
		disk := statefiletest.New(c.dir, f, at)
		if c.ctl == nil {
			c.disk.Operations = disk
		} else {
			c.settle()
			if st, _ := c.ctl.StatusOf("default/web-n1"); st.State != tr.from {
				t.Fatalf("%+v, want the state %s", st, tr.from)
			}
			got.before = lastGood()
			disk = statefiletest.New(c.dir, f, at)
			c.request(func(string) error { return c.ctl.call(func() error { c.disk.Operations = disk; return nil }) })
		}
		acts[string(tr.from)+" "+string(tr.on)+" "+string(tr.to)](c)
		time.Sleep(3 * flushRetry)
		synctest.Wait()
		got.after, got.moves = lastGood(), maps.Clone(seen.rows)
		if f == statefiletest.Fails {
			disk.End() // it has recovered, nothing of the end of the daemon counts
		}
		c.stop()
		got.operations = disk.Operations()
		c.disk.Operations = statefile.OS{}
		c.hold()
		got.restored = c.restored()
		got.lastGood = lastGood()
		c.stop()
	})
	return got
}

// restored starts a daemon on what is on the disk, and reports what it makes of it.
func (c *course) restored() string {
	c.begin()
	u := manifest.PodUpdate{Op: manifest.Add, Source: manifest.SourceFile}
	if c.manifest != nil {
		u.Pods = []*v1.Pod{c.manifest}
	}
	c.mu.Lock()
	c.current = nil
	c.mu.Unlock()
	c.updates <- u
	synctest.Wait()
	var damaged, files []string
	err := filepath.WalkDir(c.dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && path != c.dir {
			files = append(files, e.Name())
			if strings.Contains(path, statefile.SuffixDamaged) {
				damaged = append(damaged, e.Name())
			}
		}
		return err
	})
	if err != nil {
		c.t.Error(err)
	}
	if c.manifest == nil {
		return fmt.Sprintf("nothing, and the files %q", files)
	}
	st, ok := c.ctl.StatusOf("default/web-n1")
	if !ok || c.pod() == nil {
		c.t.Errorf("the pod is not in effect: %+v", st)
		return ""
	}
	r := c.ctl.byName["default/web-n1"]
	text := fmt.Sprintf("%s, %s runs, in effect %s, candidate %s, last good %s, damaged %q", st.State, c.pod().UID,
		st.Revision, st.Candidate, st.LastGood, damaged)
	if r.choice.pinned != nil {
		text += ", chosen " + r.choice.pinned.id
	}
	if r.choice.rejected != nil {
		text += ", rejected " + r.choice.rejected.Revision
	}
	for _, e := range r.history {
		text += fmt.Sprintf("; %s ready %v rejected %v", e.Revision, e.Ready, e.Rejected != "")
	}
	return text
}

// isStateChange reports whether an operation brings a state into effect, or removes it.
func isStateChange(operation string) bool {
	return operation == "rename "+stateFile || operation == "remove "+stateFile ||
		strings.HasPrefix(operation, "remove all ")
}

// Whichever file-system operation of a transition fails, or is the last one of a daemon that is
// killed or loses power, the next daemon finds the state before or after it, and the last
// revision that was Ready.
func TestKillPointsOfTransitions(t *testing.T) {
	for _, tr := range transitions {
		row := string(tr.from) + " " + string(tr.on) + " " + string(tr.to)
		t.Run(strings.ReplaceAll(strings.TrimSpace(row), " ", "-"), func(t *testing.T) {
			t.Parallel()
			if acts[row] == nil {
				t.Fatal("nothing brings about this transition")
			}
			clean := try(t, tr, statefiletest.Killed, 0)
			if !clean.moves[row] {
				t.Fatalf("the transition is not among %v", slices.Sorted(maps.Keys(clean.moves)))
			}
			n := len(clean.operations)
			if n == 0 {
				t.Fatal("nothing is written")
			}
			states := map[string]bool{clean.restored: true, try(t, tr, statefiletest.Full, 1).restored: true}
			for k, operation := range clean.operations {
				if isStateChange(operation) {
					states[try(t, tr, statefiletest.Killed, k+1).restored] = true
				}
			}
			for _, f := range []statefiletest.Fault{
				statefiletest.Killed, statefiletest.Torn, statefiletest.Fails, statefiletest.Full, statefiletest.Cut,
				statefiletest.Lost} {
				for k, operation := range clean.operations {
					if f == statefiletest.Torn && !strings.HasPrefix(operation, "write ") {
						continue
					}
					got := try(t, tr, f, k+1)
					if tr.from == none {
						// Nothing is lost with the first state of a pod.
						got.restored = strings.Replace(got.restored, `["state.json.damaged"]`, "[]", 1)
					}
					what := fmt.Sprintf("%s %d of %d, %s", f, k+1, n, operation)
					if f == statefiletest.Fails && got.restored != clean.restored || !states[got.restored] {
						t.Errorf("%s: %s\nwant one of\n%s", what, got.restored, strings.Join(slices.Sorted(maps.Keys(states)), "\n"))
					}
					if got.lastGood != got.before && got.lastGood != got.after {
						t.Errorf("%s: the last good revision is %q, want %q or %q", what, got.lastGood, got.before, got.after)
					}
				}
			}
			t.Logf("%d operations: %q", n, clean.operations)
		})
	}
}

// A pod that is edited in the second of its start stays, although the daemon is killed in that
// second too.
func TestEditRightAfterTheStartSurvivesAKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &course{imagesHarness: &imagesHarness{t: t, dir: t.TempDir(), after: time.Minute}}
		into[Preparing](c)
		disk := statefiletest.New(c.dir, statefiletest.Killed, 1)
		c.request(func(string) error { return c.ctl.call(func() error { c.disk.Operations = disk; return nil }) })
		c.stop()
		if got, want := c.restored(), "Preparing, uid-a runs"; !strings.HasPrefix(got, want) {
			t.Errorf("after the kill: %s; want: %s", got, want)
		}
		c.stop()
	})
}

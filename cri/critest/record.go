package critest

import (
	"fmt"
	"testing"
	"time"
)

// maxWrites limits the recorded calls, so that a long benchmark stays small.
const maxWrites = 1 << 16

// Call is one call that requested a change.
type Call struct {
	At                            time.Time
	Method, Pod, Container, Image string
	ID                            string // of the sandbox or container asked about
}

// Peaks are the highest numbers at any time.
type Peaks struct {
	// ReadySandboxes by pod UID; RunningInstances by UID/CONTAINER; Revisions
	// by NAMESPACE/NAME are the UIDs that had something alive.
	ReadySandboxes, RunningInstances, Revisions map[string]int
}

// recorder records what happens, and violations.
type recorder struct {
	calls      map[string]int
	writes     []Call
	violations []string

	running, ready int
	lastReady      map[string]bool // sandbox ID
	lastRunning    map[string]bool // container ID
	starts         map[string]int  // UID/CONTAINER

	readyOf   map[string]int // UID
	runningOf map[string]int // UID/CONTAINER
	alive     map[string]map[string]int
	peaks     Peaks
}

func newRecorder() recorder {
	return recorder{
		calls:       map[string]int{},
		lastReady:   map[string]bool{},
		lastRunning: map[string]bool{},
		starts:      map[string]int{},
		readyOf:     map[string]int{},
		runningOf:   map[string]int{},
		alive:       map[string]map[string]int{},
		peaks:       Peaks{map[string]int{}, map[string]int{}, map[string]int{}},
	}
}

var writeMethods = map[string]bool{
	"RunPodSandbox": true, "StopPodSandbox": true, "RemovePodSandbox": true,
	"CreateContainer": true, "StartContainer": true, "StopContainer": true, "RemoveContainer": true,
	"PullImage": true, "RemoveImage": true, "ExecSync": true, "ReopenContainerLog": true,
}

func (r *recorder) call(method string, about callTarget) {
	r.calls[method]++
	if writeMethods[method] && len(r.writes) < maxWrites {
		r.writes = append(r.writes, Call{time.Now(), method, about.pod, about.container, about.image, about.id})
	}
}

// touched records a change of another client's sandbox.
func (r *recorder) touched(b *sandbox, method string) {
	if b.foreign {
		r.violate("%s on %s (uid %s), which is another client's", method, b.fullName(), b.config.GetMetadata().GetUid())
	}
}

func (r *recorder) violate(format string, args ...any) {
	r.violations = append(r.violations, time.Now().Format("15:04:05.000000 ")+fmt.Sprintf(format, args...))
}

func (r *recorder) sandbox(b *sandbox) {
	if r.lastReady[b.id] == b.ready {
		return
	}
	uid := b.config.GetMetadata().GetUid()
	if !b.ready {
		delete(r.lastReady, b.id)
		r.ready--
		if r.readyOf[uid]--; r.readyOf[uid] == 0 {
			delete(r.readyOf, uid)
		}
		r.live(b, -1)
		return
	}
	r.lastReady[b.id] = true
	r.ready++
	r.readyOf[uid]++
	peak(r.peaks.ReadySandboxes, uid, r.readyOf[uid])
	if n := r.readyOf[uid]; n > 1 {
		r.violate("%d ready sandboxes of %s (uid %s)", n, b.fullName(), uid)
	}
	r.live(b, 1)
}

func (r *recorder) container(c *container) {
	if r.lastRunning[c.id] == c.running() {
		return
	}
	key := c.sandbox.config.GetMetadata().GetUid() + "/" + c.containerName()
	if !c.running() {
		delete(r.lastRunning, c.id)
		r.running--
		if r.runningOf[key]--; r.runningOf[key] == 0 {
			delete(r.runningOf, key)
		}
		r.live(c.sandbox, -1)
		return
	}
	r.lastRunning[c.id] = true
	r.running++
	r.starts[key]++
	r.runningOf[key]++
	peak(r.peaks.RunningInstances, key, r.runningOf[key])
	if n := r.runningOf[key]; n > 1 {
		r.violate("%d running instances of container %s of %s", n, c.containerName(), c.sandbox.fullName())
	}
	r.live(c.sandbox, 1)
}

// live counts what is alive of each revision of a pod.
func (r *recorder) live(b *sandbox, n int) {
	name, uid := b.fullName(), b.config.GetMetadata().GetUid()
	revisions := r.alive[name]
	if revisions == nil {
		revisions = map[string]int{}
		r.alive[name] = revisions
	}
	was := len(revisions)
	if revisions[uid] += n; revisions[uid] == 0 {
		delete(revisions, uid)
	}
	if len(revisions) == 0 {
		delete(r.alive, name)
	}
	peak(r.peaks.Revisions, name, len(revisions))
	if len(revisions) > 1 && len(revisions) > was {
		r.violate("%d revisions of %s are alive at once", len(revisions), name)
	}
}

func peak(peaks map[string]int, key string, n int) { peaks[key] = max(peaks[key], n) }

// Calls returns how often a method was called, faults included.
func (f *Fake) Calls(method string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.record.calls[method]
}

// Writes returns the calls that requested a change, in order, the first 65,536 of
// them.
func (f *Fake) Writes() []Call {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]Call(nil), f.record.writes...)
}

// Starts returns how often a container of a pod was started with effect.
func (f *Fake) Starts(uid, container string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.record.starts[uid+"/"+container]
}

// Peaks returns the highest numbers at any time.
func (f *Fake) Peaks() Peaks {
	f.mu.Lock()
	defer f.mu.Unlock()
	clone := func(m map[string]int) map[string]int {
		c := make(map[string]int, len(m))
		for k, v := range m {
			c[k] = v
		}
		return c
	}
	p := f.record.peaks
	return Peaks{clone(p.ReadySandboxes), clone(p.RunningInstances), clone(p.Revisions)}
}

// Violations are invariants that were broken: two ready sandboxes of a pod, two
// running instances of a container, two revisions of a pod alive, a call that
// changes another client's pod.
func (f *Fake) Violations() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.record.violations...)
}

// Check fails the test for each violation.
func (f *Fake) Check(t testing.TB) {
	t.Helper()
	for _, v := range f.Violations() {
		t.Error(v)
	}
}

package manifest

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// configHarness is a PodConfig without goroutines; its sets are scripts, see
// scriptLoader.
type configHarness struct {
	t      testing.TB
	path   string
	cp     *Checkpoint
	config *PodConfig
	model  *podModel
	loader *scriptLoader
}

func newConfigHarness(t testing.TB) *configHarness {
	b := &configHarness{t: t, path: filepath.Join(t.TempDir(), "checkpoint.json"), loader: newScriptLoader()}
	b.restart()
	return b
}

// restart simulates a new daemon with the same checkpoint. Without a path the
// bytes are not written to disk, which would be too slow for fuzzing.
func (b *configHarness) restart() {
	before := b.cp
	b.cp = openTestCheckpoint(b.t, b.path)
	if b.path == "" && before != nil {
		data, err := json.Marshal(&before.state)
		if err == nil {
			b.cp.state, err = checkpointFormat.Decode(data)
		}
		if err == nil {
			err = b.cp.state.check()
		}
		if err != nil {
			b.t.Fatal(err)
		}
	}
	b.config = NewPodConfig(PodConfigOptions{Sources: []Source{SourceFile, SourceHTTP}, Checkpoint: b.cp, Log: quietLog()})
	b.model = newPodModel(b.t)
}

// set creates a set of units given as name, script, name, script, …
func (b *configHarness) set(source Source, units ...string) Set {
	set := Set{Source: source, Time: time.Unix(1, 0)}
	reader := unitReader{source: source, loader: b.loader, checkpoint: b.cp, hadGood: map[string]bool{}}
	for i := 0; i < len(units); i += 2 {
		set.Units = append(set.Units, reader.read(units[i], []byte(units[i+1])))
	}
	return set
}

func (b *configHarness) deliver(source Source, units ...string) []string {
	b.t.Helper()
	return b.send(b.set(source, units...))
}

func (b *configHarness) send(set Set) []string {
	b.t.Helper()
	b.config.Deliver(set)
	return b.model.drain(b.config)
}

// TestRemoveReportsReplacedPods checks which removed pods have a successor of the
// same name.
func TestRemoveReportsReplacedPods(t *testing.T) {
	b := newConfigHarness(t)
	b.deliver(SourceFile, "f1", "web 1", "f2", "db 1")
	b.config.Deliver(b.set(SourceFile, "f1", "web 2"))
	update, _ := b.config.next()
	var replaced, gone []string
	for _, pod := range update.Pods {
		if update.Replaced[pod.UID] {
			replaced = append(replaced, BaseName(pod))
		} else {
			gone = append(gone, BaseName(pod))
		}
	}
	if update.Op != Remove || !slices.Equal(replaced, []string{"web"}) || !slices.Equal(gone, []string{"db"}) {
		t.Errorf("%v: replaced %v, gone %v", update.Op, replaced, gone)
	}
}

func (b *configHarness) wantUpdates(got []string, want ...string) {
	b.t.Helper()
	if !slices.Equal(got, want) {
		b.t.Fatalf("updates are %q, want %q", got, want)
	}
}

func (b *configHarness) wantFault(parts ...string) {
	b.t.Helper()
	text := Faults(b.config.Faults()).Error()
	if len(parts) == 0 && text != "" {
		b.t.Fatalf("unexpected faults: %s", text)
	}
	for _, part := range parts {
		if !strings.Contains(text, part) {
			b.t.Fatalf("faults are %q, want %q in them", text, part)
		}
	}
}

func TestPodConfigOrdersUpdates(t *testing.T) {
	b := newConfigHarness(t)
	b.wantUpdates(b.deliver(SourceFile, "f1", "a 1\nb 1", "f2", "c 1 fixed"), "ADD file a=1 b=1 c=1")
	b.wantUpdates(b.deliver(SourceFile, "f1", "a 1\nb 1", "f2", "c 1 fixed"))
	b.wantUpdates(b.deliver(SourceFile, "f1", "b 1\nd 1", "f2", "c 2 fixed"), "REMOVE file a=1", "ADD file d=1",
		"UPDATE file c=2")
	b.wantUpdates(b.deliver(SourceFile, "f1", "b 2\nd 1", "f2", "c 2 fixed"), "REMOVE file b=1", "ADD file b=2")
	b.wantUpdates(b.deliver(SourceFile), "REMOVE file b=2 c=2 d=1")
}

func TestPodConfigFirstSetEndsWithAdd(t *testing.T) {
	b := newConfigHarness(t)
	b.wantUpdates(b.deliver(SourceFile), "ADD file")
	b.wantUpdates(b.deliver(SourceFile))
	b.wantUpdates(b.deliver(SourceHTTP, "u", "a 1"), "ADD http a=1")
}

func TestPodConfigRestores(t *testing.T) {
	b := newConfigHarness(t)
	restored := b.set(SourceHTTP, "u", "a 1\nb 1 fixed")
	restored.Restored = true
	b.wantUpdates(b.send(restored), "RESTORE http a=1 b=1")
	b.wantUpdates(b.send(restored))
	if b.model.delivered[SourceHTTP] {
		t.Fatal("a restored set counted as delivered")
	}
	b.wantUpdates(b.deliver(SourceHTTP, "u", "a 1\nb 2 fixed"), "UPDATE http b=2", "ADD http")
}

// Only a pod of a unit that this run could not read comes from the checkpoint.
func TestPodConfigReportsPodsFromCheckpoint(t *testing.T) {
	b := newConfigHarness(t)
	set := b.set(SourceFile, "f1", "a 1", "f2", "b 1")
	set.Restored, set.Units[1].Restored = true, true
	b.config.Deliver(set)
	update, _ := b.config.next()
	a, restored := set.Units[0].Documents[0].Pod.UID, set.Units[1].Documents[0].Pod.UID
	if update.Op != Restore || len(update.Pods) != 2 || update.FromCheckpoint[a] || !update.FromCheckpoint[restored] {
		t.Errorf("update is %+v", update)
	}
}

func TestPodConfigRestoredThenEqual(t *testing.T) {
	b := newConfigHarness(t)
	restored := b.set(SourceHTTP, "u", "a 1")
	restored.Restored = true
	b.send(restored)
	b.wantUpdates(b.deliver(SourceHTTP, "u", "a 1"), "ADD http")
}

// A pod read back from the checkpoint must equal the one that was written.
func TestPodConfigRestoredFromDiskEqualsLoaded(t *testing.T) {
	b := newConfigHarness(t)
	b.deliver(SourceHTTP, "u", "a 1\nb 1")
	b.restart()
	b.wantUpdates(b.send(Set{Source: SourceHTTP, Restored: true, Units: b.cp.units(SourceHTTP)}), "RESTORE http a=1 b=1")
	b.wantUpdates(b.deliver(SourceHTTP, "u", "a 1\nb 1\n"), "ADD http")
}

func TestPodConfigIgnoresUnregisteredSource(t *testing.T) {
	b := newConfigHarness(t)
	b.wantUpdates(b.send(Set{Source: SourceAPI}))
}

func TestPodConfigKeepsSeen(t *testing.T) {
	b := newConfigHarness(t)
	b.deliver(SourceFile, "f", "a 1 fixed")
	first := b.model.pods["fixed"].Annotations[podinfo.AnnotationSeen]
	if _, err := time.Parse(time.RFC3339Nano, first); err != nil {
		t.Fatal(err)
	}
	b.config.now = func() time.Time { return time.Now().Add(time.Hour) }
	b.deliver(SourceFile, "f", "a 2 fixed")
	if seen := b.model.pods["fixed"].Annotations[podinfo.AnnotationSeen]; seen != first {
		t.Errorf("seen became %s, want %s", seen, first)
	}
	b.restart()
	b.deliver(SourceFile, "f", "a 2 fixed")
	if seen := b.model.pods["fixed"].Annotations[podinfo.AnnotationSeen]; seen != first {
		t.Errorf("seen became %s after a restart, want %s", seen, first)
	}
}

// The annotations of PodConfig itself do not count as a change; every other one
// does.
func TestPodConfigComparesLikeKubelet(t *testing.T) {
	base := func() *v1.Pod {
		pod := scriptPod(SourceFile, "a", "1", "uid")
		pod.Labels = map[string]string{"l": "1"}
		return pod
	}
	for name, c := range map[string]struct {
		change func(*v1.Pod)
		same   bool
	}{
		"nothing":     {func(p *v1.Pod) {}, true},
		"seen":        {func(p *v1.Pod) { p.Annotations[podinfo.AnnotationSeen] = "x" }, true},
		"source":      {func(p *v1.Pod) { p.Annotations[podinfo.AnnotationSource] = "http" }, true},
		"mirror":      {func(p *v1.Pod) { p.Annotations[podinfo.AnnotationMirror] = "x" }, true},
		"hash":        {func(p *v1.Pod) { p.Annotations[podinfo.AnnotationHash] = "x" }, false},
		"annotation":  {func(p *v1.Pod) { p.Annotations["x"] = "" }, false},
		"less":        {func(p *v1.Pod) { delete(p.Annotations, podinfo.AnnotationHash) }, false},
		"label":       {func(p *v1.Pod) { p.Labels["l"] = "2" }, false},
		"spec":        {func(p *v1.Pod) { p.Spec.Containers[0].Image = "2" }, false},
		"deletion":    {func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }, false},
		"grace":       {func(p *v1.Pod) { p.DeletionGracePeriodSeconds = new(int64) }, false},
		"status":      {func(p *v1.Pod) { p.Status.Phase = "Running" }, true},
		"empty slice": {func(p *v1.Pod) { p.Spec.Tolerations = []v1.Toleration{} }, true},
	} {
		changed := base()
		c.change(changed)
		if sameDesired(base(), changed) != c.same {
			t.Errorf("%s: same is %v, want %v", name, !c.same, c.same)
		}
	}
}

// Pods of the API server have their own rules: deletions and statuses.
func TestPodConfigAPISource(t *testing.T) {
	config := NewPodConfig(PodConfigOptions{Sources: []Source{SourceAPI}, Log: quietLog()})
	model := newPodModel(t)
	send := func(change func(*v1.Pod)) []string {
		pod := scriptPod(SourceAPI, "a", "1", "uid")
		change(pod)
		config.Deliver(Set{Source: SourceAPI,
			Units: []Unit{{Name: "api", Content: Content{Documents: []Document{{Pod: pod}}}}}})
		return model.drain(config)
	}
	b := &configHarness{t: t}
	b.wantUpdates(send(func(p *v1.Pod) {}), "ADD api a=1")
	b.wantUpdates(send(func(p *v1.Pod) { p.Status.Phase = v1.PodRunning }), "RECONCILE api a=1")
	b.wantUpdates(send(func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }), "DELETE api a=1")
	if len(config.checkpoint.units(SourceAPI)) > 0 || len(config.checkpoint.claims()) > 0 {
		t.Error("the checkpoint stores pods of the API server")
	}
}

func TestPodConfigFaultFor(t *testing.T) {
	b := newConfigHarness(t)
	b.deliver(SourceFile, "f1", "a 1", "f2", "b 1")
	woken, end := b.config.Subscribe()
	defer end()
	b.deliver(SourceFile, "f1", "broken", "f2", "warn\nb 1")
	select {
	case <-woken:
	default:
		t.Error("no subscriber was notified")
	}
	if fault := b.config.FaultFor("file-a-1"); fault != "f1:1: is broken: broken" {
		t.Errorf("fault is %q", fault)
	}
	if fault := b.config.FaultFor("file-b-1"); fault != "" {
		t.Errorf("a warning holds nothing back, but the fault is %q", fault)
	}
	b.wantFault("f1:1: is broken", "f2:1: is odd")

	set := b.set(SourceFile, "f1", "a 1", "f2", "b 1")
	set.Fault = &Fault{Unit: "/etc/pods", Problem: "does not exist"}
	b.wantUpdates(b.send(set))
	if fault := b.config.FaultFor("file-b-1"); fault != "/etc/pods: does not exist" {
		t.Errorf("fault is %q", fault)
	}
	b.deliver(SourceFile, "f1", "a 1", "f2", "b 1")
	if fault := b.config.FaultFor("file-a-1"); fault != "" {
		t.Errorf("fault is still %q", fault)
	}
	b.wantFault()
}

func TestPodConfigLogsFaultsOnce(t *testing.T) {
	b := newConfigHarness(t)
	lines := &logLines{}
	b.config.log = lines.log()
	for range 5 {
		b.deliver(SourceFile, "f1", "broken")
	}
	if got := lines.with("is broken"); len(got) != 1 {
		t.Errorf("logged %q", got)
	}
	b.deliver(SourceFile, "f1", "broken\nworse")
	if got := lines.with("is broken"); len(got) != 2 {
		t.Errorf("logged %q", got)
	}
	b.deliver(SourceFile, "f1", "a 1")
	b.deliver(SourceFile, "f1", "a 1")
	if got := lines.with("Manifest fault resolved"); len(got) != 1 {
		t.Errorf("logged %q", got)
	}
}

func TestPodConfigSnapshot(t *testing.T) {
	b := newConfigHarness(t)
	b.deliver(SourceFile, "f1", "a 1", "f2", "broken")
	views := b.config.Snapshot()
	if len(views) != 2 || views[0].Source != SourceFile || !views[0].Delivered || views[1].Delivered {
		t.Fatalf("views are %+v", views)
	}
	if units := views[0].Units; units[0].Digest != Digest([]byte("a 1")) || len(units[0].Pods) != 1 ||
		units[0].Pods[0].UID != "file-a-1" ||
		units[1].Digest != "" || !units[1].Faults.Fatal() {
		t.Fatalf("units are %+v", views[0].Units)
	}
}

// With a slow reader no source waits, and nothing is lost or reordered.
func TestPodConfigNeverBlocksSources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := NewPodConfig(PodConfigOptions{Sources: []Source{SourceFile}, Log: quietLog()})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- config.Run(ctx) }()
		loader := newScriptLoader()
		reader := unitReader{source: SourceFile, loader: loader, checkpoint: config.checkpoint, hadGood: map[string]bool{}}
		for i := range 500 {
			config.Deliver(Set{Source: SourceFile, Units: []Unit{reader.read("f", fmt.Appendf(nil, "a %d fixed", i))}})
		}
		synctest.Wait()
		model := newPodModel(t)
		for i := range 500 {
			model.apply(<-config.Updates())
			if want := fmt.Sprintf("file a=%d", i); !strings.HasSuffix(model.log[i], want) {
				t.Fatalf("update %d is %q", i, model.log[i])
			}
		}
		config.Deliver(Set{Source: SourceFile}) // one more waits while Run ends
		synctest.Wait()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// FuzzPodConfig delivers random sets of both sources: applied in order, the updates give the
// snapshot, no two pods share a name, and what has no conflict is in effect.
func FuzzPodConfig(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed)
	}
	f.Add(uint64(329)) // a uid that a source which is away holds under another name
	f.Add(uint64(181)) // one pod twice in a unit
	f.Fuzz(func(t *testing.T, seed uint64) {
		random := rand.New(rand.NewPCG(seed, 1))
		b := &configHarness{t: t, loader: newScriptLoader()}
		b.restart()
		for range 40 {
			if random.IntN(12) == 0 {
				b.restart()
			}
			source := []Source{SourceFile, SourceHTTP}[random.IntN(2)]
			set := b.set(source, randomUnits(random, source)...)
			set.Restored = !b.model.delivered[source] && random.IntN(3) == 0
			for i := range set.Units {
				set.Units[i].Missing = random.IntN(6) == 0
			}
			b.send(set)
			checkModel(t, b, set)
		}
	})
}

func randomUnits(random *rand.Rand, source Source) []string {
	var units []string
	for u := range random.IntN(4) {
		script := "empty\n"
		for range random.IntN(3) {
			script += fmt.Sprintf("p%d %d", random.IntN(4), random.IntN(3))
			if random.IntN(4) == 0 {
				script += fmt.Sprintf(" fixed%d", random.IntN(2))
			}
			script += "\n"
		}
		if random.IntN(5) == 0 {
			script = "broken"
		}
		units = append(units, fmt.Sprintf("%s%d", source, u), script)
	}
	return units
}

func checkModel(t *testing.T, b *configHarness, last Set) {
	t.Helper()
	inEffect := 0
	for _, view := range b.config.Snapshot() {
		for _, unit := range view.Units {
			for _, pod := range unit.Pods {
				uid := pod.UID
				inEffect++
				if b.model.pods[uid] == nil {
					t.Errorf("%s of %s is in effect, but the updates do not have it: %q", uid, unit.Name, b.model.log)
				} else if b.model.by[uid] != view.Source {
					t.Errorf("%s is of source %s, the updates say %s", uid, view.Source, b.model.by[uid])
				}
			}
		}
	}
	if inEffect != len(b.model.pods) {
		t.Errorf("%d pods are in effect, the updates give %d: %q", inEffect, len(b.model.pods), b.model.log)
	}
	// A rejected unit has a fault, and any other is in effect as a whole.
	for _, view := range b.config.Snapshot() {
		if view.Source != last.Source {
			continue
		}
		for i, unit := range view.Units {
			if !unit.Faults.Fatal() && !last.Units[i].Missing && len(unit.Pods) != len(last.Units[i].Documents) {
				t.Errorf("%s lacks pods without a fault: has %v of %v", unit.Name, unit.Pods, last.Units[i].Documents[0].Pod.UID)
			}
		}
	}
}

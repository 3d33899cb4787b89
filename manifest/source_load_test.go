package manifest

import (
	"context"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/internal/statefile"
)

// scriptLoader is a UnitLoader for scripts in place of manifests: a line is
// "NAME IMAGE [UID]", or "cm NAME VALUE" for a ConfigMap, "empty" declares
// no pods, "warn" gives a warning. Anything else, or no line at all, is a fault.
type scriptLoader struct {
	mu    sync.Mutex
	loads map[string]int
}

func newScriptLoader() *scriptLoader { return &scriptLoader{loads: map[string]int{}} }

// count is how often the unit was loaded.
func (l *scriptLoader) count(unit string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.loads[unit]
}

func (l *scriptLoader) Load(req LoadRequest) (Content, Faults) {
	l.mu.Lock()
	l.loads[req.Unit]++
	l.mu.Unlock()
	var content Content
	var faults Faults
	found := false
	for i, line := range strings.Split(string(req.Data), "\n") {
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
			continue
		case words[0] == "empty":
		case words[0] == "warn":
			faults = append(faults, Fault{Unit: req.Unit, Line: i + 1, Problem: "is odd", Warning: true})
		case len(words) < 2:
			faults = append(faults, Fault{Unit: req.Unit, Line: i + 1, Problem: "is broken: " + line})
		case words[0] == "cm":
			content.Objects = append(content.Objects, scriptConfigMap(words))
		default:
			content.Documents = append(content.Documents, scriptDocument(req, words))
		}
		found = true
	}
	if !found {
		faults = append(faults, Fault{Unit: req.Unit, Problem: "contains no manifest"})
	}
	if faults.Fatal() {
		return Content{}, faults
	}
	return content, faults
}

func scriptConfigMap(words []string) Object {
	configMap := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: words[1]},
		Data: map[string]string{"value": words[2]}}
	return Object{Digest: Digest([]byte(strings.Join(words, " "))), ConfigMap: configMap}
}

func scriptDocument(req LoadRequest, words []string) Document {
	digest := Digest([]byte(strings.Join(words, " ")))
	if req.Known != nil {
		if pod, ok := req.Known(digest); ok {
			return Document{Digest: digest, Pod: pod}
		}
	}
	uid := types.UID(string(req.Source) + "-" + words[0] + "-" + words[1])
	if len(words) > 2 {
		uid = types.UID(words[2])
	}
	return Document{Digest: digest, Pod: scriptPod(req.Source, words[0], words[1], uid)}
}

func scriptPod(source Source, name, image string, uid types.UID) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name + "-node", Namespace: "default", UID: uid,
			Annotations: map[string]string{podinfo.AnnotationHash: image, podinfo.AnnotationSource: string(source)},
		},
		Spec: v1.PodSpec{NodeName: "node", Containers: []v1.Container{{Name: "c", Image: image}}},
	}
}

func quietLog() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// logLines collects log lines.
type logLines struct {
	mu    sync.Mutex
	lines []string
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, strings.TrimSpace(string(p)))
	return len(p), nil
}

func (l *logLines) log() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// with returns the lines that contain the text.
func (l *logLines) with(text string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(l.lines), func(line string) bool { return !strings.Contains(line, text) })
}

// podModel applies updates like the sync loop, and fails the test if they
// contradict each other.
type podModel struct {
	t         testing.TB
	pods      map[types.UID]*v1.Pod
	by        map[types.UID]Source
	delivered map[Source]bool
	// log contains every update as text, such as "ADD file a-node/img".
	log []string
}

func newPodModel(t testing.TB) *podModel {
	return &podModel{t: t, pods: map[types.UID]*v1.Pod{}, by: map[types.UID]Source{}, delivered: map[Source]bool{}}
}

func (m *podModel) apply(u PodUpdate) {
	m.t.Helper()
	words := []string{u.Op.String(), string(u.Source)}
	for _, pod := range u.Pods {
		words = append(words, strings.TrimSuffix(pod.Name, "-node")+"="+pod.Spec.Containers[0].Image)
		_, there := m.pods[pod.UID]
		if pod.Annotations[podinfo.AnnotationSeen] == "" || pod.Annotations[podinfo.AnnotationSource] != string(u.Source) {
			m.t.Errorf("%v of %s: annotations are %v", u.Op, pod.Name, pod.Annotations)
		}
		switch u.Op {
		case Add, Restore:
			if there {
				m.t.Errorf("%v of %s, which is there", u.Op, pod.UID)
			}
			m.pods[pod.UID], m.by[pod.UID] = pod, u.Source
		case Remove:
			if !there || m.by[pod.UID] != u.Source {
				m.t.Errorf("REMOVE of %s, which source %s does not have", pod.UID, u.Source)
			}
			delete(m.pods, pod.UID)
			delete(m.by, pod.UID)
		default:
			if !there {
				m.t.Errorf("%v of %s, which is not there", u.Op, pod.UID)
			}
			m.pods[pod.UID], m.by[pod.UID] = pod, u.Source
		}
	}
	switch {
	case u.Op == Add:
		m.delivered[u.Source] = true
	case u.Op == Restore && m.delivered[u.Source]:
		m.t.Errorf("RESTORE by %s, which has delivered", u.Source)
	}
	names := map[string]types.UID{}
	for uid, pod := range m.pods {
		if other, taken := names[claimName(pod)]; taken {
			m.t.Errorf("%s and %s are both called %s", uid, other, claimName(pod))
		}
		names[claimName(pod)] = uid
	}
	m.log = append(m.log, strings.Join(words, " "))
}

// running returns the pods of the model as "name=image", in order.
func (m *podModel) running() []string {
	var names []string
	for pod := range maps.Values(m.pods) {
		names = append(names, strings.TrimSuffix(pod.Name, "-node")+"="+pod.Spec.Containers[0].Image)
	}
	slices.Sort(names)
	return names
}

// drain applies the queued updates without Run, and returns their texts.
func (m *podModel) drain(c *PodConfig) []string {
	m.t.Helper()
	from := len(m.log)
	for {
		update, ok := c.next()
		if !ok {
			return m.log[from:]
		}
		m.apply(update)
	}
}

// awaitTimeout is how long a test waits for an expected event.
const awaitTimeout = 2 * time.Minute

// sinkDeliverer merges sets and lets a test wait for them.
type sinkDeliverer struct {
	config *PodConfig
	model  *podModel
	sets   chan Set
}

func newSink(t testing.TB, checkpoint *Checkpoint, log *slog.Logger) *sinkDeliverer {
	return newSinkOf(t, checkpoint, log, SourceFile, SourceHTTP)
}

func newSinkOf(t testing.TB, checkpoint *Checkpoint, log *slog.Logger, sources ...Source) *sinkDeliverer {
	config := NewPodConfig(PodConfigOptions{Sources: sources, Checkpoint: checkpoint, Log: log})
	return &sinkDeliverer{config: config, model: newPodModel(t), sets: make(chan Set, 1000)}
}

func (s *sinkDeliverer) Deliver(set Set) {
	s.config.Deliver(set)
	s.sets <- set
}

// await receives sets until one satisfies the condition, and applies their updates.
func (s *sinkDeliverer) await(what string, satisfies func(Set) bool) Set {
	s.model.t.Helper()
	timeout := time.After(awaitTimeout)
	var last Set
	for {
		select {
		case last = <-s.sets:
			s.model.drain(s.config)
			if satisfies(last) {
				return last
			}
		case <-timeout:
			s.model.t.Fatalf("no set came with %s; the last is %+v, updates so far: %q", what, last, s.model.log)
		}
	}
}

// awaitPods waits until exactly these pods run.
func (s *sinkDeliverer) awaitPods(names ...string) Set {
	s.model.t.Helper()
	return s.await(strings.Join(names, ","), func(Set) bool { return slices.Equal(s.model.running(), names) })
}

// awaitFault waits for a set whose faults contain the text.
func (s *sinkDeliverer) awaitFault(text string) Set {
	s.model.t.Helper()
	return s.await("fault "+text, func(set Set) bool { return strings.Contains(setFaults(set), text) })
}

func setFaults(set Set) string {
	var faults Faults
	if set.Fault != nil {
		faults = append(faults, *set.Fault)
	}
	for _, unit := range set.Units {
		faults = append(faults, unit.Faults...)
	}
	return faults.Error()
}

// runInBackground runs in the background and stops with the test.
func runInBackground(t testing.TB, run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	stopped := sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run returned %v", err)
		}
	})
	t.Cleanup(stopped)
	return stopped
}

func openTestCheckpoint(t testing.TB, path string) *Checkpoint {
	t.Helper()
	checkpoint, err := OpenCheckpoint(path, quietLog(), statefile.Disk{})
	if err != nil {
		t.Fatal(err)
	}
	return checkpoint
}

// sleepInBubble advances the fake clock, and then waits for all goroutines.
func sleepInBubble(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

package supervisor

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstead/podstead/api"
	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/cri/critest"
	"github.com/podstead/podstead/manifest"
)

// recordedMetrics holds the metrics that a supervisor recorded.
type recordedMetrics struct {
	mu        sync.Mutex
	worked    map[string]int
	started   []time.Duration
	displaced []string
	// userNamespaced are the errors of the starts of pods with user namespaces.
	userNamespaced []error
}

func (m *recordedMetrics) UserNamespacedPodStarted(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.userNamespaced = append(m.userNamespaced, err)
}

func (m *recordedMetrics) PodSynced(operation string, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.worked[operation]++
}

func (m *recordedMetrics) PodStarted(took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.started = append(m.started, took)
}

func (m *recordedMetrics) PodDisrupted(reason, signal string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.displaced = append(m.displaced, reason+" "+signal)
}

func stepNames(steps []api.StartStep) []string {
	var names []string
	for _, s := range steps {
		names = append(names, s.Name)
	}
	return names
}

func TestMetrics(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		m := &recordedMetrics{worked: map[string]int{}}
		b.metrics = m
		pod, bound := testPod("p", "u", "1"), testPod("bound", "b", "1")
		d := b.start(manifest.SourceFile, manifest.SourceAPI)
		d.config.deliver(manifest.SourceAPI, bound)
		b.runs(bound.UID)
		if got := d.Workers(); got[WorkerKind{Config: "desired", Lifecycle: "sync", Static: ""}] != 1 || len(got) != 1 {
			t.Errorf("workers of a pod of an API server: %v", got)
		}
		d.config.deliver(manifest.SourceAPI)
		b.gone(bound.UID)
		m.mu.Lock()
		clear(m.worked)
		m.started = nil
		m.mu.Unlock()
		d.config.deliver(manifest.SourceFile, pod)
		b.runs(pod.UID)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		m.mu.Lock()
		if len(m.started) != 1 || m.started[0] < 0 || m.started[0] > 5*time.Second {
			t.Errorf("started after %v, want once and soon", m.started)
		}
		if m.worked["create"] != 1 || m.worked["sync"] < 1 || m.worked["kill"] != 0 {
			t.Errorf("worked %v", m.worked)
		}
		if got, ok := d.PodStart(pod.UID); !ok || got.Seconds != m.started[0].Seconds() ||
			!slices.Equal(stepNames(got.Steps), []string{cri.StepSandbox, cri.StepImage, cri.StepCreate, cri.StepStart}) {
			t.Errorf("the start of the pod: %+v, %v; it took %v", got, ok, m.started)
		}
		m.mu.Unlock()
		if got := d.Workers(); got[WorkerKind{Config: "desired", Lifecycle: "sync", Static: "true"}] != 1 || len(got) != 1 {
			t.Errorf("workers %v", got)
		}
		grace := int64(1)
		if err := d.Disrupt(pod.UID, eviction, &grace); err != nil {
			t.Fatal(err)
		}
		if err := d.WaitEnded(context.Background(), pod.UID); err != nil {
			t.Fatal(err)
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		if !slices.Equal(m.displaced, []string{"Evicted memory.available"}) || m.worked["kill"] < 1 ||
			m.worked["cleanup"] < 1 {
			t.Errorf("displaced %v, worked %v", m.displaced, m.worked)
		}
	})
}

// A daemon that adopts a running pod has not started it.
func TestAdoptedPodIsNotCountedAsStarted(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		pod := testPod("p", "u", "1")
		d := b.start()
		d.config.deliver(manifest.SourceFile, pod)
		b.runs(pod.UID)
		b.kill()
		m := &recordedMetrics{worked: map[string]int{}}
		b.metrics = m
		d = b.start()
		d.config.deliver(manifest.SourceFile, pod)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		m.mu.Lock()
		defer m.mu.Unlock()
		if len(m.started) != 0 || m.worked["create"] != 1 {
			t.Errorf("started %v, worked %v", m.started, m.worked)
		}
		if took, ok := d.PodStart(pod.UID); ok {
			t.Errorf("the adopted pod took %v to start", took)
		}
	})
}

// The starts of pods with a user namespace are counted, and those that failed.
func TestUserNamespacedPodsAreCounted(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		m := &recordedMetrics{worked: map[string]int{}}
		b.metrics = m
		b.fake.SetHandlers(&runtimeapi.RuntimeHandler{Features: &runtimeapi.RuntimeHandlerFeatures{UserNamespaces: true}})
		b.fake.Inject("RunPodSandbox", critest.Fault{Before: critest.Err(codes.Unknown, "no network")})
		own := false
		pod, other := testPod("p", "u", "1"), testPod("q", "o", "1")
		pod.Spec.HostUsers = &own
		d := b.start()
		d.config.deliver(manifest.SourceFile, pod)
		b.runs(pod.UID)
		d.config.deliver(manifest.SourceFile, pod, other)
		b.runs(other.UID)
		m.mu.Lock()
		defer m.mu.Unlock()
		if len(m.userNamespaced) != 2 || m.userNamespaced[0] == nil || m.userNamespaced[1] != nil {
			t.Errorf("counted %v, want a failure and a success", m.userNamespaced)
		}
	})
}

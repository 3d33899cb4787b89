package supervisor

import (
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/supervisor/podinputs"
)

// fakeClasses holds the classes that a test declares.
type fakeClasses struct {
	podinputs.NoObjects
	mu       sync.Mutex
	wake     chan struct{}
	runtimes []*nodev1.RuntimeClass
}

func (f *fakeClasses) RuntimeClass(name string) (*nodev1.RuntimeClass, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.runtimes {
		if c.Name == name {
			return c, true
		}
	}
	return nil, false
}

func (f *fakeClasses) Subscribe() (<-chan struct{}, func()) { return f.wake, func() {} }

func (f *fakeClasses) declare(class *nodev1.RuntimeClass) {
	f.mu.Lock()
	f.runtimes = append(f.runtimes, class)
	f.mu.Unlock()
	f.wake <- struct{}{}
}

func runtimeClass(name, handler string) *nodev1.RuntimeClass {
	return &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "1"}, Handler: handler}
}

// A pod whose runtime class is created later waits for it, and gets its
// handler.
func TestPodWaitsForItsRuntimeClass(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		objects := &fakeClasses{wake: make(chan struct{}, 1)}
		b.sources = func(s *Sources) { s.Objects = objects }
		d := b.start()
		pod := testPod("p", "u", "1")
		name := "kata"
		pod.Spec.RuntimeClassName = &name
		d.config.deliver(manifest.SourceFile, pod)
		b.until(time.Minute, "the pod waits",
			func() bool { return d.status(pod.UID).Reason == podinputs.ReasonRuntimeClassNotFound })
		if st := d.status(pod.UID); st.Phase != v1.PodPending || len(b.fake.Sandboxes()) > 0 {
			t.Errorf("%+v", st)
		}
		objects.declare(runtimeClass("kata", "kata-qemu"))
		if took := b.runs(pod.UID); took > 10*time.Second {
			t.Errorf("took %s after the class came", took)
		}
		if handler := b.fake.Sandboxes()[0].Handler; handler != "kata-qemu" {
			t.Errorf("handler %q", handler)
		}
	})
}

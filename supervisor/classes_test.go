package supervisor

import (
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/manifest"
)

// fakeClasses are classes that a test declares.
type fakeClasses struct {
	noObjects
	mu         sync.Mutex
	wake       chan struct{}
	priorities []*schedulingv1.PriorityClass
	runtimes   []*nodev1.RuntimeClass
}

func (f *fakeClasses) PriorityClasses() []*schedulingv1.PriorityClass {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.priorities
}

func (f *fakeClasses) PriorityClass(name string) (*schedulingv1.PriorityClass, bool) {
	for _, c := range f.PriorityClasses() {
		if c.Name == name {
			return c, true
		}
	}
	return nil, false
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

func priorityClass(name string, value int32, policy v1.PreemptionPolicy, isDefault bool) *schedulingv1.PriorityClass {
	return &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "1"}, Value: value, PreemptionPolicy: &policy, GlobalDefault: isDefault}
}

func runtimeClass(name, handler string) *nodev1.RuntimeClass {
	return &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "1"}, Handler: handler}
}

func TestPriorityOfClasses(t *testing.T) {
	objects := &fakeClasses{priorities: []*schedulingv1.PriorityClass{
		priorityClass("batch", -5, v1.PreemptNever, false), priorityClass("usual", 100, v1.PreemptLowerPriority, true), priorityClass("zusual", 200, v1.PreemptLowerPriority, true),
	}}
	number := func(n int32) *int32 { return &n }
	for name, tc := range map[string]struct {
		class    string
		priority *int32
		source   manifest.Source
		want     *int32
		policy   v1.PreemptionPolicy
		reason   string
		words    string
	}{
		"node critical":      {class: "system-node-critical", want: number(2000001000), policy: v1.PreemptLowerPriority},
		"cluster critical":   {class: "system-cluster-critical", want: number(2000000000), policy: v1.PreemptLowerPriority},
		"declared":           {class: "batch", want: number(-5), policy: v1.PreemptNever},
		"declared and equal": {class: "batch", priority: number(-5), want: number(-5), policy: v1.PreemptNever},
		"the default":        {want: number(100), policy: v1.PreemptLowerPriority},
		"a number alone":     {priority: number(7), want: number(7)},
		"unknown":            {class: "gone", reason: reasonPriorityClass, words: `no PriorityClass "gone"`},
		"another number":     {class: "batch", priority: number(1), want: number(1), reason: reasonClassConflict, words: `is 1, and PriorityClass "batch" has -5`},
		"of an API server":   {class: "gone", priority: number(3), source: manifest.SourceAPI, want: number(3)},
	} {
		t.Run(name, func(t *testing.T) {
			s := &podSyncer{cfg: Config{Sources: Sources{Objects: objects}}}
			pod := testPod("p", "u", "1")
			if tc.source != "" {
				pod.Annotations[podinfo.AnnotationSource] = string(tc.source)
			}
			pod.Spec.PriorityClassName, pod.Spec.Priority = tc.class, tc.priority
			before := pod.DeepCopy()
			got, _, cause := s.withClasses(pod)
			if (cause == nil) != (tc.reason == "") || cause != nil && (cause.Reason != tc.reason || !strings.Contains(cause.Message, tc.words)) {
				t.Fatalf("cause %+v", cause)
			}
			switch have := got.Spec.Priority; {
			case (have == nil) != (tc.want == nil):
				t.Errorf("priority %v, want %v", have, tc.want)
			case have != nil && *have != *tc.want:
				t.Errorf("priority %d, want %d", *have, *tc.want)
			}
			if p := got.Spec.PreemptionPolicy; tc.policy != "" && (p == nil || *p != tc.policy) {
				t.Errorf("policy %v, want %s", p, tc.policy)
			}
			if pod.Spec.PriorityClassName != before.Spec.PriorityClassName || pod.Spec.Priority != tc.priority || pod.Spec.PreemptionPolicy != nil {
				t.Error("the wanted pod was changed")
			}
		})
	}
}

func TestRuntimeClassIsResolved(t *testing.T) {
	kata := runtimeClass("kata", "kata-qemu")
	overhead := v1.ResourceList{v1.ResourceMemory: resource.MustParse("64Mi")}
	kata.Overhead = &nodev1.Overhead{PodFixed: overhead}
	kata.Scheduling = &nodev1.Scheduling{NodeSelector: map[string]string{"kvm": "yes"}}
	objects := &fakeClasses{runtimes: []*nodev1.RuntimeClass{kata}}
	s := &podSyncer{cfg: Config{Sources: Sources{Objects: objects}, Runtime: Runtime{Classes: map[string]string{"fast": "crun", "kata": "never"}}}}
	resolve := func(edit func(*v1.Pod)) (*v1.Pod, string, string) {
		pod := testPod("p", "u", "1")
		edit(pod)
		got, handler, cause := s.withClasses(pod)
		if cause == nil {
			return got, handler, ""
		}
		return got, handler, cause.Reason + ": " + cause.Message
	}
	class := func(name string) func(*v1.Pod) {
		return func(p *v1.Pod) { p.Spec.RuntimeClassName = &name }
	}
	if _, handler, cause := resolve(func(*v1.Pod) {}); handler != "" || cause != "" {
		t.Errorf("without a class: %q, %s", handler, cause)
	}
	got, handler, cause := resolve(func(p *v1.Pod) {
		class("kata")(p)
		p.Spec.NodeSelector = map[string]string{"disk": "ssd"}
		p.Spec.Overhead = v1.ResourceList{v1.ResourceMemory: resource.MustParse("65536Ki")}
	})
	if handler != "kata-qemu" || cause != "" || got.Spec.NodeSelector["kvm"] != "yes" || got.Spec.NodeSelector["disk"] != "ssd" || got.Spec.Overhead.Memory().Value() != 64<<20 {
		t.Errorf("got %q, %s, %v", handler, cause, got.Spec)
	}
	if len(kata.Scheduling.NodeSelector) != 1 {
		t.Error("the class was changed")
	}
	if _, handler, cause = resolve(class("fast")); handler != "crun" || cause != "" {
		t.Errorf("of the flags: %q, %s", handler, cause)
	}
	if _, _, cause = resolve(class("gone")); !strings.HasPrefix(cause, reasonRuntimeClass) || !strings.Contains(cause, "--runtime-classes=gone=HANDLER") {
		t.Errorf("unknown: %s", cause)
	}
	if _, _, cause = resolve(func(p *v1.Pod) {
		class("kata")(p)
		p.Spec.Overhead = v1.ResourceList{v1.ResourceMemory: resource.MustParse("1Mi")}
	}); !strings.HasPrefix(cause, reasonClassConflict+": spec.overhead") {
		t.Errorf("another overhead: %s", cause)
	}
	if _, _, cause = resolve(func(p *v1.Pod) {
		class("kata")(p)
		p.Spec.NodeSelector = map[string]string{"kvm": "no"}
	}); !strings.HasPrefix(cause, reasonClassConflict+": spec.nodeSelector[kvm]") {
		t.Errorf("another selector: %s", cause)
	}
}

// A pod whose runtime class comes later waits for it, and gets its handler.
func TestPodWaitsForItsRuntimeClass(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		objects := &fakeClasses{wake: make(chan struct{}, 1)}
		b.sources = func(s *Sources) { s.Objects = objects }
		d := b.start()
		pod := testPod("p", "u", "1")
		name := "kata"
		pod.Spec.RuntimeClassName = &name
		d.config.deliver(manifest.SourceFile, pod)
		b.until(time.Minute, "the pod waits", func() bool { return d.status(pod.UID).Reason == reasonRuntimeClass })
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

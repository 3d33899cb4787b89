package podinputs

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/manifest"
)

func priorityClass(name string, value int32, policy v1.PreemptionPolicy, isDefault bool) *schedulingv1.PriorityClass {
	return &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "1"}, Value: value,
		PreemptionPolicy: &policy, GlobalDefault: isDefault}
}

func runtimeClass(name, handler string) *nodev1.RuntimeClass {
	return &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "1"}, Handler: handler}
}

func TestResolvePriorityClass(t *testing.T) {
	objects := &testObjects{priorities: []*schedulingv1.PriorityClass{
		priorityClass("batch", -5, v1.PreemptNever, false), priorityClass("usual", 100, v1.PreemptLowerPriority, true),
		priorityClass("zusual", 200, v1.PreemptLowerPriority, true),
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
		"only a number":      {priority: number(7), want: number(7)},
		"unknown":            {class: "gone", reason: ReasonPriorityClassNotFound, words: `PriorityClass "gone" not found`},
		"a conflicting number": {class: "batch", priority: number(1), want: number(1), reason: ReasonClassConflict,
			words: `1 conflicts with -5 of PriorityClass "batch"`},
		"an API pod": {class: "gone", priority: number(3), source: manifest.SourceAPI, want: number(3)},
	} {
		t.Run(name, func(t *testing.T) {
			r := New(Config{Objects: objects})
			pod := testPod("p")
			if tc.source != "" {
				pod.Annotations[podinfo.AnnotationSource] = string(tc.source)
			}
			pod.Spec.PriorityClassName, pod.Spec.Priority = tc.class, tc.priority
			before := pod.DeepCopy()
			resolved := r.Resolve(pod)
			got, cause := resolved.Pod, resolved.Fault
			if (cause == nil) != (tc.reason == "") || cause != nil &&
				(cause.Reason != tc.reason || !strings.Contains(cause.Message, tc.words)) {
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
			if pod.Spec.PriorityClassName != before.Spec.PriorityClassName || pod.Spec.Priority != tc.priority ||
				pod.Spec.PreemptionPolicy != nil {
				t.Error("the wanted pod was changed")
			}
		})
	}
}

func TestResolveRuntimeClass(t *testing.T) {
	kata := runtimeClass("kata", "kata-qemu")
	overhead := v1.ResourceList{v1.ResourceMemory: resource.MustParse("64Mi")}
	kata.Overhead = &nodev1.Overhead{PodFixed: overhead}
	kata.Scheduling = &nodev1.Scheduling{NodeSelector: map[string]string{"kvm": "yes"}}
	objects := &testObjects{runtimes: []*nodev1.RuntimeClass{kata}}
	r := New(Config{Objects: objects, RuntimeClasses: map[string]string{"fast": "crun", "kata": "never"}})
	resolve := func(edit func(*v1.Pod)) (*v1.Pod, string, string) {
		pod := testPod("p")
		edit(pod)
		got := r.Resolve(pod)
		if got.Fault == nil {
			return got.Pod, got.RuntimeHandler, ""
		}
		return got.Pod, got.RuntimeHandler, got.Fault.Reason + ": " + got.Fault.Message
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
	if handler != "kata-qemu" || cause != "" || got.Spec.NodeSelector["kvm"] != "yes" ||
		got.Spec.NodeSelector["disk"] != "ssd" || got.Spec.Overhead.Memory().Value() != 64<<20 {
		t.Errorf("got %q, %s, %v", handler, cause, got.Spec)
	}
	if len(kata.Scheduling.NodeSelector) != 1 {
		t.Error("the class was changed")
	}
	if _, handler, cause = resolve(class("fast")); handler != "crun" || cause != "" {
		t.Errorf("from the flags: %q, %s", handler, cause)
	}
	if _, _, cause = resolve(class("gone")); !strings.HasPrefix(cause, ReasonRuntimeClassNotFound) ||
		!strings.Contains(cause, "--runtime-classes=gone=HANDLER") {
		t.Errorf("unknown: %s", cause)
	}
	if _, _, cause = resolve(func(p *v1.Pod) {
		class("kata")(p)
		p.Spec.Overhead = v1.ResourceList{v1.ResourceMemory: resource.MustParse("1Mi")}
	}); !strings.HasPrefix(cause, ReasonClassConflict+": spec.overhead") {
		t.Errorf("another overhead: %s", cause)
	}
	if _, _, cause = resolve(func(p *v1.Pod) {
		class("kata")(p)
		p.Spec.NodeSelector = map[string]string{"kvm": "no"}
	}); !strings.HasPrefix(cause, ReasonClassConflict+": spec.nodeSelector[kvm]") {
		t.Errorf("another selector: %s", cause)
	}
}

// Resolve returns the same value until the pod or one of its classes changes.
func TestResolveOncePerRevision(t *testing.T) {
	objects := newTestObjects()
	objects.runtimes = []*nodev1.RuntimeClass{runtimeClass("fast", "crun")}
	r := New(Config{Objects: objects})
	class := "fast"
	pod := testPod("web")
	pod.Spec.RuntimeClassName = &class
	last := r.Resolve(pod)
	for _, step := range []struct {
		name    string
		change  func()
		renewed bool
		handler string
	}{
		{"nothing", func() {}, false, "crun"},
		{"an object that is no class", func() { objects.store("default", "cm", map[string]string{"a": "1"}) }, false, "crun"},
		{"a priority class that is not the default", func() {
			objects.priorities = append(objects.priorities, priorityClass("batch", 1, v1.PreemptNever, false))
		}, false, "crun"},
		{"the handler", func() {
			changed := runtimeClass("fast", "kata")
			changed.ResourceVersion = "2"
			objects.runtimes = []*nodev1.RuntimeClass{changed}
		}, true, "kata"},
		{"a default priority class is added", func() {
			objects.priorities = append(objects.priorities, priorityClass("usual", 7, v1.PreemptLowerPriority, true))
		}, true, "kata"},
		{"its value", func() {
			changed := priorityClass("usual", 8, v1.PreemptLowerPriority, true)
			changed.ResourceVersion = "2"
			objects.priorities = []*schedulingv1.PriorityClass{changed}
		}, true, "kata"},
		{"another revision of the pod", func() { pod = pod.DeepCopy() }, true, "kata"},
		{"the class is removed", func() { objects.runtimes = nil }, true, ""},
		{"the pod is forgotten", func() { r.Retain(func(types.UID) bool { return false }) }, true, ""},
		{"another pod is forgotten", func() { r.Retain(func(uid types.UID) bool { return uid == pod.UID }) }, false, ""},
	} {
		step.change()
		now := r.Resolve(pod)
		if (now != last) != step.renewed || now.RuntimeHandler != step.handler {
			t.Errorf("%s: resolved again: %v, handler %q", step.name, now != last, now.RuntimeHandler)
		}
		last = now
	}
	if p := last.Pod.Spec.Priority; p == nil || *p != 8 || last.Fault == nil ||
		last.Fault.Reason != ReasonRuntimeClassNotFound {
		t.Errorf("resolved to priority %v, fault %+v", p, last.Fault)
	}
}

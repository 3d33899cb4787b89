package cri

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// A pod's author cannot make the runtime's lists large, nor hide what identifies the pod.
func TestListsStaySmall(t *testing.T) {
	small := map[string]string{"a": "b", podinfo.AnnotationSource: "api", podinfo.AnnotationHash: "1",
		podinfo.AnnotationTemplate: "2"}
	if got, omitted := passed(small); !maps.Equal(got, small) || omitted != 0 {
		t.Errorf("small: %v, %d omitted", got, omitted)
	}
	if got, _ := passed(nil); got != nil {
		t.Errorf("none: %v", got)
	}
	many := maps.Clone(small)
	for i := range 100_000 {
		many[fmt.Sprint(i)] = ""
	}
	large := maps.Clone(small)
	large["large"] = strings.Repeat("a", 200_000)
	for name, all := range map[string]map[string]string{"many": many, "large": large} {
		got, omitted := passed(all)
		size := 0
		for key, value := range got {
			size += len(key) + len(value)
		}
		if size > maxPassed+1<<10 || omitted != len(all)-len(got) || omitted == 0 {
			t.Errorf("%s: %d bytes, %d of %d, %d omitted", name, size, len(got), len(all), omitted)
		}
		for _, key := range identifying {
			if got[key] != small[key] {
				t.Errorf("%s: %s is %q", name, key, got[key])
			}
		}
		if again, _ := passed(all); !maps.Equal(got, again) {
			t.Errorf("%s: it is another set each time", name)
		}
	}
	if got, _ := passed(large); got["a"] != "b" {
		t.Error("a large annotation displaces a small one")
	}

	hook := func(size int) *v1.Lifecycle {
		return &v1.Lifecycle{PreStop: &v1.LifecycleHandler{
			Exec: &v1.ExecAction{Command: []string{strings.Repeat("a", size)}}}}
	}
	for size, want := range map[int]bool{100: true, maxRecovered: false} {
		annotations := map[string]string{}
		hookAnnotations(annotations, &v1.Pod{}, &v1.Container{Lifecycle: hook(size)})
		if _, got := annotations[AnnotationPreStop]; got != want {
			t.Errorf("a hook of %d bytes is stored: %v", size, got)
		}
		// Either way it is known, unless the pod runs as another revision.
		pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c", Lifecycle: hook(size)}}}}
		seen := &Container{Name: "c", SandboxID: "s"}
		recoverHooks(seen, annotations)
		k := killContext{pod: pod, observed: &Pod{Sandboxes: []Sandbox{{ID: "s"}}}}
		if k.withHook(seen).PreStop == nil {
			t.Errorf("a hook of %d bytes is lost", size)
		}
		pod.Annotations = map[string]string{podinfo.AnnotationTemplate: "other"}
		if got := k.withHook(seen).PreStop; (got != nil) != want {
			t.Errorf("another revision, a hook of %d bytes: %v", size, got)
		}
	}
}

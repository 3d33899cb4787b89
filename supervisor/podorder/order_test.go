package podorder

import (
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/supervisor/podworkers"
)

func staticPod(name, dependsOn string) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: "default", UID: types.UID("u-" + name),
		Annotations: map[string]string{podinfo.AnnotationSource: string(podinfo.SourceFile)},
	}}
	if dependsOn != "" {
		pod.Annotations[podinfo.AnnotationDependsOn] = dependsOn
	}
	return pod
}

// A pod that waited for others and then is not stopped, because its syncs fail or hang,
// holds up those that it depends on no longer than one that never waited.
func TestEndBlockOfAPodThatDoesNotReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, c := staticPod("a", ""), staticPod("b", "a"), staticPod("c", "b")
		var views []podworkers.View
		for _, pod := range []*v1.Pod{a, b, c} {
			views = append(views, podworkers.View{Pod: pod, Since: time.Now(), Grace: 30})
		}
		o := New(Config{Terminating: func() []podworkers.View { return views }, Notify: func(types.UID) {}})
		if names, again := o.EndBlock(b, time.Time{}); len(names) != 1 || time.Until(again) != 30*time.Second+stopMargin {
			t.Fatalf("b waits for %v until %v", names, again)
		}
		if names, _ := o.EndBlock(c, time.Time{}); names != nil {
			t.Fatalf("c waits for %v", names)
		}
		time.Sleep(10 * time.Second)
		o.Stopped(c)
		views = views[:2]
		// b is notified, and never asks again.
		started := time.Now()
		for range 10 {
			names, again := o.EndBlock(a, time.Time{})
			if len(names) == 0 {
				if took := time.Since(started); took > 2*(30*time.Second+stopMargin) {
					t.Errorf("a is stopped after %s", took)
				}
				return
			}
			if again.IsZero() {
				t.Fatalf("a waits for %v, and nothing notifies it", names)
			}
			time.Sleep(time.Until(again))
		}
		t.Errorf("a still waits after %s", time.Since(started))
	})
}

// The annotations of terminating pods are parsed once, and forgotten with their pods.
func TestEndBlockParsesOnce(t *testing.T) {
	a, b, c := staticPod("a", ""), staticPod("b", "a"), staticPod("c", "x")
	views := []podworkers.View{{Pod: a, Since: time.Now(), Grace: 30}, {Pod: b, Since: time.Now(), Grace: 30},
		{Pod: c, Since: time.Now(), Grace: 30}}
	o := New(Config{Terminating: func() []podworkers.View { return views }, Notify: func(types.UID) {}})
	o.EndBlock(a, time.Time{})
	o.parsed[b.UID] = parsedPod{pod: b, name: "default/b", dependsOn: []string{"default/c"}}
	if names, _ := o.EndBlock(c, time.Time{}); len(names) != 1 || names[0] != "default/b" {
		t.Errorf("c waits for %v, what was parsed of b does not count", names)
	}
	views = views[:1]
	if o.EndBlock(a, time.Time{}); len(o.parsed) != 1 {
		t.Errorf("%d pods are parsed, one is terminating", len(o.parsed))
	}
	if o.Stopped(a); len(o.parsed) != 0 {
		t.Error("a pod that has ended is kept")
	}
}

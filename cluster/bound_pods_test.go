package cluster

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/manifest"
)

type deliveries [][]string

func (d *deliveries) Deliver(set manifest.Set) {
	names := []string{}
	for _, document := range set.Units[0].Documents {
		names = append(names, document.Pod.Name+"@"+document.Pod.ResourceVersion)
	}
	*d = append(*d, names)
}

// boundTo returns a source that delivers to d.
func boundTo(d Deliverer) *boundPods {
	nothing := func() {}
	return &boundPods{Adapter: &Adapter{
		budget: newPodBudget(nil),
		cfg:    Config{Pods: Pods{Bound: d}}, name: "edge",
		nodes: newReflector[*v1.Node](nil, "nodes", "", nil, nothing),
		pods:  newReflector[*v1.Pod](nil, "pods", "", nil, nothing),
	}}
}

// The whole set is delivered, never before the API server has sent its whole
// list, and only when it changes.
func TestBoundPodsAreDelivered(t *testing.T) {
	var got deliveries
	b := boundTo(&got)
	newPod := func(name, version, mirror string) *v1.Pod {
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name),
			ResourceVersion: version}}
		if mirror != "" {
			pod.Annotations = map[string]string{podinfo.AnnotationMirror: mirror}
		}
		return pod
	}
	step := func(what string, want ...[]string) {
		t.Helper()
		b.deliver()
		if !slices.EqualFunc(got, want, slices.Equal) {
			t.Errorf("%s: delivered %q, want %q", what, got, want)
		}
		got = nil
	}
	step("nothing is known")
	b.pods.replace([]*v1.Pod{newPod("b", "2", ""), newPod("a", "1", ""), newPod("m", "1", "hash")})
	step("the pods are, the node is not")
	b.nodes.replace([]*v1.Node{aNode()})
	step("the node is", []string{"a@1", "b@2"})
	step("no news")
	b.pods.Stored(newPod("m", "4", "hash"))
	step("a mirror changes")
	b.pods.Stored(newPod("a", "5", ""))
	step("a pod changes", []string{"a@5", "b@2"})
	b.nodes.replace(nil)
	step("the node goes")
	b.pods.Removed("b")
	step("one was removed", []string{"a@5"})
	b.pods.replace(nil)
	step("all go", []string{})
}

// An empty cluster also has a set: garbage collection waits for it.
func TestNoBoundPods(t *testing.T) {
	var got deliveries
	b := boundTo(&got)
	b.nodes.replace([]*v1.Node{aNode()})
	b.pods.replace(nil)
	b.deliver()
	b.deliver()
	if len(got) != 1 || len(got[0]) != 0 {
		t.Errorf("delivered %q", got)
	}
}

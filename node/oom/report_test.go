package oom

import (
	"iter"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

type recordedEvents []string

func (r *recordedEvents) Event(pod *v1.Pod, _, reason, _ string) {
	name := "node"
	if pod != nil {
		name = pod.Name
	}
	*r = append(*r, name+" "+reason)
}

// A kill in a container is an event of its pod, which is observed again; one for lack of the node's memory is an
// event of the node too.
func TestReport(t *testing.T) {
	pods := []*v1.Pod{
		{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "u1"}},
		{ObjectMeta: metav1.ObjectMeta{Name: "db", UID: "u2"}},
	}
	containers := []Owner{{Pod: "default/db", PodUID: "u2", Name: "main", ID: "c2"},
		{Pod: "default/web", PodUID: "u1", Name: "main", ID: "c1"}}
	for name, c := range map[string]struct {
		kill     Kill
		events   []string
		relisted []types.UID
	}{
		"a container's limit": {Kill{Cgroup: "/pods/c1", Limit: "/pods/c1"}, []string{"web OOMKilling"}, []types.UID{"u1"}},
		"the node's memory": {Kill{Cgroup: "/pods/c2", Limit: Machine}, []string{"node SystemOOM", "db OOMKilling"},
			[]types.UID{"u2"}},
		"another process":    {Kill{Cgroup: "/system.slice", Limit: Machine}, []string{"node SystemOOM"}, nil},
		"a cgroup of others": {Kill{Cgroup: "/system.slice", Limit: "/system.slice"}, nil, nil},
	} {
		var events recordedEvents
		var relisted []types.UID
		Reporter{
			Containers: func() iter.Seq[Owner] { return slices.Values(containers) }, Pods: func() []*v1.Pod { return pods },
			Events: &events, Relist: func(uid types.UID) { relisted = append(relisted, uid) },
		}.Report(c.kill)
		if !slices.Equal(events, c.events) || !slices.Equal(relisted, c.relisted) {
			t.Errorf("%s: events %q, relisted %q", name, []string(events), relisted)
		}
	}
}

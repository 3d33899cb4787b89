package oom

import (
	"strings"
	"testing"
)

func TestWhatIsToldOfAKill(t *testing.T) {
	owner := &Owner{Pod: "default/web", PodUID: "1-2", Name: "app", ID: "aa"}
	const container, pod = "/podstead/pod1-2/aa", "/podstead/pod1-2"
	for name, tc := range map[string]struct {
		limit     string
		owner     *Owner
		node, pod string
	}{
		"the container's limit": {container, owner, "", "container reached its memory limit"},
		"the pod's":             {pod, owner, "", "pod's containers reached"},
		"the pod's, of systemd": {"/podstead.slice/podstead-pod1_2.slice", owner, "", "pod's containers reached"},
		"that of all pods": {"/podstead", owner, "System OOM encountered, victim process: x, pid: 5; cgroup " +
			"/podstead, which pods share, is out of memory; the process is of container app in pod default/web", "node ran out"},
		"an unknown one": {"", owner, "", "a memory limit was reached"},
		"the machine's": {Machine, owner,
			"System OOM encountered, victim process: x, pid: 5; the node is out of memory; the process is of container app",
			"node ran out"},
		"the machine's, no pod": {Machine, nil,
			"System OOM encountered, victim process: x, pid: 5; the node is out of memory", ""},
		"of another program":     {"/docker/bb", nil, "", ""},
		"an owner without an ID": {Machine, &Owner{Pod: "p"}, "the node is out", "node ran out"},
	} {
		k := Kill{Process: "x", PID: 5, Cgroup: container, Limit: tc.limit}
		if got := k.NodeMessage(tc.owner); (got == "") != (tc.node == "") || !strings.Contains(got, tc.node) {
			t.Errorf("%s: %q", name, got)
		}
		if tc.owner == nil {
			continue
		}
		if got := k.PodMessage(tc.owner); !strings.Contains(got, tc.pod) {
			t.Errorf("%s: %q", name, got)
		}
		if tc.owner.Has(k) != (tc.owner.ID != "") {
			t.Errorf("%s: whose it was", name)
		}
	}
}

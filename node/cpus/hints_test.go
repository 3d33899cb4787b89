package cpus

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/node/topology"
)

// text lists hints, the preferred ones marked with a !.
func text(hints []topology.Hint) string {
	var parts []string
	for _, h := range hints {
		mark := ""
		if h.Preferred {
			mark = "!"
		}
		parts = append(parts, h.Mask.String()+mark)
	}
	slices.Sort(parts)
	return strings.Join(parts, " ")
}

// The NUMA nodes with enough free CPUs are hinted, and those of as few nodes as the request needs
// on an empty machine are preferred. With align-by-socket the nodes of one socket are.
func TestHints(t *testing.T) {
	four := shape{2, 2, 1, 2, 1} // 2 sockets, nodes 0-1, 2-3, 4-5, 6-7
	for name, c := range map[string]struct {
		on      shape
		options Options
		used    string
		n       int
		want    string
	}{
		"two nodes":       {shape{2, 1, 1, 4, 1}, Options{}, "", 2, "0! 0,1 1!"},
		"SMT":             {shape{2, 1, 1, 2, 2}, Options{FullPhysicalCPUs: true}, "", 4, "0,1 1!"}, // CPU 0 is reserved
		"one is full":     {shape{2, 1, 1, 4, 1}, Options{}, "1-3", 2, "0,1 1!"},
		"both":            {shape{2, 1, 1, 4, 1}, Options{}, "", 6, "0,1!"},
		"no single node":  {shape{2, 1, 1, 4, 1}, Options{}, "1-2,4-6", 2, "0,1"},
		"none":            {shape{2, 1, 1, 4, 1}, Options{}, "1-7", 1, ""},
		"of a socket":     {four, Options{}, "1,6", 3, "0,1,2 0,1,2,3 0,1,3 0,2,3 0,2! 0,3 1,2! 1,3! 1,2,3 2,3! 0,1! "},
		"aligned sockets": {four, Options{AlignBySocket: true}, "", 2, ""},
	} {
		n := newNode(t)
		m := n.open(t, c.on, c.options, "0")
		if c.used != "" {
			m.state.Pods["x"] = podState{Name: "x", Containers: map[string]Set{"a": set(t, c.used)}}
		}
		got := m.Hints(testPod("p", container("a", fmt.Sprint(c.n))), nil)[v1.ResourceCPU]
		if name == "aligned sockets" {
			for _, h := range got {
				// The nodes 0 and 1 are one socket, and 2 and 3 the other one.
				if want := h.Mask&^topology.NewMask(0, 1) == 0 || h.Mask&^topology.NewMask(2, 3) == 0; h.Preferred != want {
					t.Errorf("%s: %s is preferred: %v", name, h.Mask, h.Preferred)
				}
			}
			continue
		}
		if name == "of a socket" {
			for _, h := range got {
				if h.Preferred != (h.Mask.Count() == 2) {
					t.Errorf("%s: %s is preferred: %v", name, h.Mask, h.Preferred)
				}
			}
			continue
		}
		if text(got) != c.want {
			t.Errorf("%s: %s, want %s", name, text(got), c.want)
		}
	}
	m := newNode(t).open(t, shape{2, 1, 1, 4, 1}, Options{}, "0")
	if got := m.Hints(testPod("p", container("a", "500m")), nil); got != nil {
		t.Errorf("hints of a pod without exclusive CPUs: %v", got)
	}
}

// CPUs are taken from the NUMA nodes of the affinity first, and with align-by-socket from their
// sockets.
func TestAssignNearNodes(t *testing.T) {
	four := shape{2, 2, 1, 2, 1}
	for name, c := range map[string]struct {
		options  Options
		affinity topology.Mask
		n        int
		want     string
	}{
		"any":            {Options{}, 0, 2, "2-3"},
		"a node":         {Options{}, topology.NewMask(2), 2, "4-5"},
		"more than it":   {Options{}, topology.NewMask(3), 3, "1,6-7"},
		"two nodes":      {Options{}, topology.NewMask(2, 3), 4, "4-7"},
		"its socket":     {Options{AlignBySocket: true}, topology.NewMask(2), 3, "4-6"},
		"spread in them": {Options{DistributeAcrossNUMA: true, FullPhysicalCPUs: true}, topology.NewMask(1, 3), 4, "2-3,6-7"},
	} {
		m := newNode(t).open(t, four, c.options, "0")
		pod := testPod("p", container("a", fmt.Sprint(c.n)))
		if err := m.Assign(pod, &pod.Spec.Containers[0], c.affinity); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := m.Assigned(pod.UID, "a").String(); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

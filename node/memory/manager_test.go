package memory

import (
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"reflect"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/statefile/statefiletest"
	"github.com/podstead/podstead/node/topology"
)

const (
	gi  = int64(1) << 30
	big = v1.ResourceName("hugepages-1Gi")
)

// two is a machine of two NUMA nodes with 10Gi each, 2Gi of them in hugepages on the second node.
// Reserved are 1Gi and 1Gi: containers can have 9Gi and 7Gi of memory.
var (
	two      = Nodes{0: {v1.ResourceMemory: 10 * gi, big: 0}, 1: {v1.ResourceMemory: 10 * gi, big: 2 * gi}}
	reserved = Nodes{0: {v1.ResourceMemory: gi}, 1: {v1.ResourceMemory: gi}}
)

// bed is a manager with its file.
type bed struct {
	t *testing.T
	*Manager
	cfg      Config
	requests int
	faults   int
}

func newBed(t *testing.T, machine Nodes) *bed {
	b := &bed{t: t}
	b.cfg = Config{
		Machine: machine, Reserved: reserved, File: File(t.TempDir()), BootID: "boot", Log: slog.New(slog.DiscardHandler),
		Requested: func(err error) {
			b.requests++
			if err != nil {
				b.faults++
			}
		},
	}
	b.open()
	return b
}

func (b *bed) open() {
	b.t.Helper()
	m, err := Open(b.cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	b.Manager = m
}

// start assigns memory to all containers of a pod, as the topology manager does.
func (b *bed) start(pod *v1.Pod, affinity topology.Mask) error {
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if err := b.Assign(pod, &list[i], affinity); err != nil {
				b.Release(pod.UID)
				return err
			}
		}
	}
	b.Commit(pod)
	return nil
}

// mustStart is like start, and checks the NUMA nodes of the containers.
func (b *bed) mustStart(pod *v1.Pod, affinity topology.Mask, want map[string]string) {
	b.t.Helper()
	if err := b.start(pod, affinity); err != nil {
		b.t.Fatalf("%s: %v", pod.Name, err)
	}
	for name, nodes := range want {
		if got := b.NUMANodes(pod.UID, name); got != nodes {
			b.t.Errorf("container %s of pod %s has the nodes %q, want %q", name, pod.Name, got, nodes)
		}
	}
}

// freeOn returns what is free of memory on each node, in Gi.
func (b *bed) freeOn() [2]int64 {
	return [2]int64{b.free(0, v1.ResourceMemory) / gi, b.free(1, v1.ResourceMemory) / gi}
}

func container(name string, gibs int64) v1.Container {
	c := v1.Container{Name: name}
	c.Resources.Limits = v1.ResourceList{v1.ResourceCPU: resource.MustParse("1"),
		v1.ResourceMemory: *resource.NewQuantity(gibs*gi, resource.BinarySI)}
	c.Resources.Requests = c.Resources.Limits.DeepCopy()
	return c
}

func guaranteed(name string, containers ...v1.Container) *v1.Pod {
	pod := &v1.Pod{}
	pod.Name, pod.Namespace, pod.UID, pod.Spec.Containers = name, "default", types.UID("u-"+name), containers
	return pod
}

// Each container has its memory of as few NUMA nodes as possible. A pod that is not Guaranteed, or
// has pod-level resources, has none of its own.
func TestAssign(t *testing.T) {
	b := newBed(t, two)
	burstable := guaranteed("burstable", container("a", 5))
	delete(burstable.Spec.Containers[0].Resources.Requests, v1.ResourceMemory)
	burstable.Spec.Containers[0].Resources.Requests[v1.ResourceMemory] = resource.MustParse("1Gi")
	level := guaranteed("level", container("a", 5))
	level.Spec.Resources = &level.Spec.Containers[0].Resources
	for _, pod := range []*v1.Pod{burstable, level} {
		b.mustStart(pod, 0, map[string]string{"a": ""})
		if b.Hints(pod, nil) != nil || b.Hints(pod, &pod.Spec.Containers[0]) != nil {
			t.Errorf("%s has hints", pod.Name)
		}
	}
	if b.requests != 0 {
		t.Errorf("%d requests", b.requests)
	}
	b.mustStart(guaranteed("first", container("a", 6), container("b", 5)), 0, map[string]string{"a": "0", "b": "1"})
	if free := b.freeOn(); free != [2]int64{3, 2} {
		t.Errorf("free are %v", free)
	}
	late := guaranteed("late", container("a", 4))
	err := b.start(late, 0)
	var shortage *Shortage
	if !errors.As(err, &shortage) || shortage.Reason() != ReasonUnavailable ||
		!strings.Contains(err.Error(),
			"container a requests 4Gi of memory, available 3Gi on NUMA node 0, 2Gi on NUMA node 1") {
		t.Errorf("no node has 4Gi, and both serve containers alone: %v", err)
	}
	if b.requests != 3 || b.faults != 1 {
		t.Errorf("%d requests, %d errors", b.requests, b.faults)
	}
	if !b.Release("u-first") || b.Release("u-first") {
		t.Error("what a released pod had is reported wrongly")
	}
	b.mustStart(late, topology.NewMask(1), map[string]string{"a": "1"})
	if nodes, has := b.Assigned(late.UID, "a"); !reflect.DeepEqual(nodes, []int{1}) ||
		!reflect.DeepEqual(has, Amounts{v1.ResourceMemory: 4 * gi}) {
		t.Errorf("late has %v of %v", has, nodes)
	}
}

// A container that needs several NUMA nodes makes them a group, which serves no container alone.
func TestSeveralNodes(t *testing.T) {
	b := newBed(t, two)
	wide := guaranteed("wide", container("a", 12))
	if hints := b.Hints(wide, &wide.Spec.Containers[0])[v1.ResourceMemory]; !reflect.DeepEqual(hints,
		[]topology.Hint{{Mask: topology.NewMask(0, 1), Preferred: true}}) {
		t.Errorf("hints %v", hints)
	}
	b.mustStart(wide, 0, map[string]string{"a": "0,1"})
	if free := b.freeOn(); free != [2]int64{0, 4} {
		t.Errorf("free are %v", free)
	}
	small := guaranteed("small", container("a", 1))
	if hints := b.Hints(small, &small.Spec.Containers[0])[v1.ResourceMemory]; len(hints) != 1 || hints[0].Preferred ||
		hints[0].Mask != topology.NewMask(0, 1) {
		t.Errorf("hints %v: the nodes are a group", hints)
	}
	// A hint of the CPUs alone is extended to the group.
	b.mustStart(small, topology.NewMask(1), map[string]string{"a": "0,1"})
	b.Release(wide.UID)
	b.Release(small.UID)
	b.mustStart(small, 0, map[string]string{"a": "0"})
	if err := b.start(wide, 0); err == nil {
		t.Error("a node that serves a container alone became part of a group")
	}
}

// Hugepages are counted on their own, and are no other memory.
func TestHugepages(t *testing.T) {
	b := newBed(t, two)
	with := container("a", 1)
	with.Resources.Limits[big], with.Resources.Requests[big] = resource.MustParse("2Gi"), resource.MustParse("2Gi")
	pod := guaranteed("pages", with)
	hints := b.Hints(pod, &pod.Spec.Containers[0])
	if want := []topology.Hint{{Mask: topology.NewMask(0, 1)},
		{Mask: topology.NewMask(1), Preferred: true}}; !reflect.DeepEqual(hints[big], want) ||
		!reflect.DeepEqual(hints[v1.ResourceMemory], want) {
		t.Errorf("hints %v", hints)
	}
	b.mustStart(pod, 0, map[string]string{"a": "1"})
	if err := b.start(guaranteed("more", with), 0); err == nil ||
		!strings.Contains(err.Error(), "2Gi of hugepages-1Gi, available 0 on NUMA node 0, 0 on NUMA node 1") {
		t.Errorf("no hugepages are left: %v", err)
	}
	if want := (Nodes{0: {v1.ResourceMemory: 9 * gi, big: 0},
		1: {v1.ResourceMemory: 7 * gi, big: 2 * gi}}); !reflect.DeepEqual(b.Assignable(), want) {
		t.Errorf("assignable are %v", b.Assignable())
	}
}

// The memory of an init container is given to those after it on the same nodes; that of a sidecar is
// not.
func TestInitContainers(t *testing.T) {
	b := newBed(t, Nodes{0: {v1.ResourceMemory: 10 * gi}, 1: {v1.ResourceMemory: gi}})
	always := v1.ContainerRestartPolicyAlways
	pod := guaranteed("p", container("main", 5), container("other", 2))
	sidecar := container("sidecar", 2)
	sidecar.RestartPolicy = &always
	pod.Spec.InitContainers = []v1.Container{container("large", 6), sidecar, container("init", 4)}
	if hints := b.Hints(pod, nil)[v1.ResourceMemory]; len(hints) != 2 || hints[1].Mask != topology.NewMask(0) ||
		!hints[1].Preferred {
		t.Errorf("the pod needs 9Gi at the same time: hints %v", hints)
	}
	b.mustStart(pod, 0, map[string]string{"large": "0", "sidecar": "0", "init": "0", "main": "0", "other": "0"})
	if free := b.freeOn(); free[0] != 0 {
		t.Errorf("free are %v: the sidecar, main and other have 2Gi, 5Gi and 2Gi of 9Gi", free)
	}
	if hints := b.Hints(pod, nil)[v1.ResourceMemory]; !reflect.DeepEqual(hints,
		[]topology.Hint{{Mask: topology.NewMask(0), Preferred: true}}) {
		t.Errorf("hints of a pod that has its memory: %v", hints)
	}
}

// The assignments survive the daemon, but not a boot, and are kept by the pod.
func TestRestart(t *testing.T) {
	b := newBed(t, two)
	pod := guaranteed("p", container("a", 6))
	b.mustStart(pod, 0, map[string]string{"a": "0"})
	b.mustStart(guaranteed("gone", container("a", 1)), 0, nil)
	b.open()
	b.mustStart(pod, topology.NewMask(1), map[string]string{"a": "0"})
	b.Retain(func(uid types.UID) bool { return uid == pod.UID })
	b.open()
	if free := b.freeOn(); free != [2]int64{3, 7} {
		t.Errorf("free are %v", free)
	}
	if err := CheckNone(b.cfg.File, "boot"); err == nil ||
		!strings.Contains(err.Error(), `the configured policy "None" differs from "Static" in the state file`) ||
		!strings.Contains(err.Error(), "default/p") {
		t.Errorf("the policy None with a pod: %v", err)
	}

	// The reserved memory grows beyond what the pod leaves.
	before := b.cfg.Reserved
	b.cfg.Reserved = Nodes{0: {v1.ResourceMemory: 5 * gi}}
	b.open()
	if free := b.freeOn(); free != [2]int64{0, 8} || b.NUMANodes(pod.UID, "a") != "0" {
		t.Errorf("more is reserved: free are %v", free)
	}
	// The machine lost memory: the pod goes on.
	b.cfg.Reserved, b.cfg.Machine = before, Nodes{0: {v1.ResourceMemory: 4 * gi}, 1: two[1]}
	b.open()
	if free := b.freeOn(); free != [2]int64{0, 7} {
		t.Errorf("free are %v", free)
	}

	b.cfg.BootID, b.cfg.Machine = "next", two
	b.open()
	if free := b.freeOn(); free != [2]int64{9, 7} || b.NUMANodes(pod.UID, "a") != "" {
		t.Errorf("after a boot free are %v", free)
	}
	if err := CheckNone(b.cfg.File, "next"); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(b.cfg.File); err == nil {
		t.Error("the file is left")
	}
}

// A state file that cannot be understood stops the start.
func TestFaultyState(t *testing.T) {
	b := newBed(t, two)
	b.mustStart(guaranteed("p", container("a", 6)), 0, nil)
	valid, err := os.ReadFile(b.cfg.File)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		string(valid[:len(valid)/2]): "is invalid: ",
		`{"version": 2}`:             "has version 2, and this podstead knows version 1",
		`{"version":1,"bootID":"boot","pods":{"u":{"name":"default/p","containers":{"a":{"numaNodes":[64]}}}}}`: "container a of pod default/p has the NUMA nodes [64]",
	} {
		if err := os.WriteFile(b.cfg.File, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(b.cfg); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "remove it to start without") {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	var fields map[string]any
	if err := json.Unmarshal(valid, &fields); err != nil || fields["policyName"] != "Static" {
		t.Errorf("%v: %s", err, valid)
	}
}

// A file that cannot be written leaves the assignment in force.
func TestUnwrittenState(t *testing.T) {
	b := newBed(t, two)
	b.cfg.Disk.Operations = statefiletest.New("", statefiletest.Full, 1)
	b.open()
	b.mustStart(guaranteed("p", container("a", 6)), 0, map[string]string{"a": "0"})
}

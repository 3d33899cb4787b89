package cpus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// container returns a container with limits of cpu and memory, which are its requests too.
func container(name, cpu string) v1.Container {
	list := v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse("1Mi")}
	return v1.Container{Name: name, Resources: v1.ResourceRequirements{Requests: list, Limits: list}}
}

func testPod(name string, containers ...v1.Container) *v1.Pod {
	pod := &v1.Pod{Spec: v1.PodSpec{Containers: containers}}
	pod.Name, pod.Namespace, pod.UID = name, "default", types.UID("uid-"+name)
	return pod
}

// node is a machine with the containers that run on it.
type node struct {
	mu      sync.Mutex
	running []Container
	// cpus are those that were set, by container ID; fail makes the next update fail.
	cpus map[string]string
	fail bool
	file string
}

func newNode(t *testing.T) *node {
	return &node{cpus: map[string]string{}, file: File(t.TempDir())}
}

func (n *node) list() []Container {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.running)
}

func (n *node) update(_ context.Context, id, cpus string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.fail {
		n.fail = false
		return errors.New("no")
	}
	n.cpus[id] = cpus
	return nil
}

// run makes a container run with the CPUs that it has to have.
func (n *node) run(m *Manager, pod *v1.Pod, container string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	id := pod.Name + "-" + container
	cpus, _ := m.CPUs(pod.UID, container)
	m.Created(id, cpus)
	n.cpus[id] = cpus
	n.running = append(n.running, Container{Pod: pod.UID, Name: container, ID: id})
}

func (n *node) config(t *testing.T, on shape, o Options, reserved string) Config {
	t.Helper()
	return Config{
		Topology: on.read(t), Options: o, Reserved: set(t, reserved), File: n.file, BootID: "boot",
		Running: n.list, Update: n.update, Log: slog.New(slog.DiscardHandler),
	}
}

func (n *node) open(t *testing.T, on shape, o Options, reserved string) *Manager {
	t.Helper()
	m, err := Open(n.config(t, on, o, reserved))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// assigned returns the CPUs of the containers of a pod, as text.
func assigned(m *Manager, pod *v1.Pod) string {
	var parts []string
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		cpus, exclusive := m.CPUs(pod.UID, c.Name)
		if !exclusive {
			cpus = "shared " + cpus
		}
		parts = append(parts, c.Name+" "+cpus)
	}
	return strings.Join(parts, "; ")
}

var eight = shape{1, 1, 1, 8, 1}

// Only containers of Guaranteed pods with whole CPUs get their own.
func TestExclusive(t *testing.T) {
	burstable := container("a", "2")
	burstable.Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}
	whole := testPod("pod-level", container("a", "2"))
	whole.Spec.Resources = &v1.ResourceRequirements{Limits: whole.Spec.Containers[0].Resources.Limits,
		Requests: whole.Spec.Containers[0].Resources.Requests}
	for name, c := range map[string]struct {
		pod  *v1.Pod
		want int
	}{
		"whole":      {testPod("p", container("a", "2")), 2},
		"fractional": {testPod("p", container("a", "1500m")), 0},
		"burstable":  {testPod("p", burstable), 0},
		"mixed":      {testPod("p", container("a", "2"), burstable), 0},
		"pod level":  {whole, 0},
	} {
		if got := Exclusive(c.pod, &c.pod.Spec.Containers[0]); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

func TestAssign(t *testing.T) {
	m := newNode(t).open(t, eight, Options{}, "0")
	first, second := testPod("first", container("a", "2"), container("b", "500m")), testPod("second", container("a", "5"))
	third, fourth := testPod("third", container("a", "1")), testPod("fourth", container("a", "1"))
	for _, pod := range []*v1.Pod{first, second} {
		if err := assign(m, pod); err != nil {
			t.Fatal(err)
		}
	}
	if got := assigned(m, first); got != "a 1-2; b shared 0" {
		t.Error(got)
	}
	if got := assigned(m, second); got != "a 3-7" {
		t.Error(got)
	}
	var shortage *Shortage
	if err := assign(m, third); !errors.As(err, &shortage) || shortage.Reason() != ReasonUnavailable ||
		!strings.Contains(err.Error(), "container a requests 1 exclusive CPUs, available 0") {
		t.Error(err)
	}
	if m.HasExclusive(third.UID) || !m.HasExclusive(first.UID) {
		t.Error("a pod that waits has CPUs")
	}
	m.Release(first.UID)
	if err := errors.Join(assign(m, third), assign(m, fourth), assign(m, second)); err != nil {
		t.Error(err)
	}
	if got := assigned(m, third) + "; " + assigned(m, fourth) + "; " + assigned(m, second); got != "a 1; a 2; a 3-7" {
		t.Error(got)
	}
	if err := assign(m, testPod("huge", container("a", "8"))); err == nil ||
		!strings.Contains(err.Error(), "this node has 7 that are not reserved") {
		t.Error(err)
	}
	m.Retain(func(uid types.UID) bool { return uid == second.UID })
	if got := assigned(m, third); got != "a shared 0-2" {
		t.Error(got)
	}
}

// The CPUs of an init container are given to what runs after it, those of a sidecar are not.
func TestInitContainers(t *testing.T) {
	m := newNode(t).open(t, eight, Options{}, "0")
	always := v1.ContainerRestartPolicyAlways
	sidecar := container("sidecar", "1")
	sidecar.RestartPolicy = &always
	pod := testPod("p", container("app", "2"), container("other", "1"))
	pod.Spec.InitContainers = []v1.Container{container("first", "2"), sidecar, container("second", "3")}
	if err := assign(m, pod); err != nil {
		t.Fatal(err)
	}
	if got := assigned(m, pod); got != "first 1-2; sidecar 1; second 2-4; app 2-3; other 4" {
		t.Error(got)
	}
	if cpus, _ := m.CPUs("other", "c"); cpus != "0,5-7" {
		t.Error(cpus)
	}
}

func TestFullPhysicalCPUs(t *testing.T) {
	m := newNode(t).open(t, shape{1, 1, 1, 4, 2}, Options{FullPhysicalCPUs: true}, "0") // core 0 is 0,4
	var shortage *Shortage
	if err := assign(m, testPod("odd", container("a", "1"))); !errors.As(err, &shortage) ||
		shortage.Reason() != ReasonSMTAlignment || !strings.Contains(err.Error(), "request a multiple of 2") {
		t.Error(err)
	}
	pod := testPod("p", container("a", "6"))
	if err := assign(m, pod); err != nil || assigned(m, pod) != "a 1-3,5-7" {
		t.Error(err, assigned(m, pod))
	}
	// CPU 4 is free, but its core is not.
	if err := assign(m, testPod("late", container("a", "2"))); err == nil ||
		!strings.Contains(err.Error(), "available 0") {
		t.Error(err)
	}
}

func TestStrictReservation(t *testing.T) {
	m := newNode(t).open(t, eight, Options{StrictReservation: true}, "0-1")
	if cpus, _ := m.CPUs("x", "c"); cpus != "2-7" {
		t.Error(cpus)
	}
	if err := assign(m, testPod("p", container("a", "6"))); err != nil {
		t.Fatal(err)
	}
	if cpus, _ := m.CPUs("x", "c"); cpus != "0-1" {
		t.Errorf("a container needs a CPU, and has %q", cpus)
	}
}

// A restart keeps the assignments; a boot ends them; changes of the configuration that
// contradict them are errors.
func TestState(t *testing.T) {
	n := newNode(t)
	pod := testPod("p", container("a", "2"))
	if err := assign(n.open(t, eight, Options{}, "0"), pod); err != nil {
		t.Fatal(err)
	}
	m := n.open(t, eight, Options{}, "0")
	if got := assigned(m, pod); got != "a 1-2" || m.Assigned(pod.UID, "a").String() != "1-2" {
		t.Error(got)
	}
	if err := CheckNone(n.file, "boot"); err == nil ||
		!strings.Contains(err.Error(),
			`cpuManagerPolicy: the configured policy "none" differs from "static" in the state file `+n.file) ||
		!strings.Contains(err.Error(),
			"default/p (CPUs 1-2); set it to static and remove these pods first, or remove the file") {
		t.Error(err)
	}
	if _, err := Open(n.config(t, eight, Options{}, "1")); err == nil ||
		!strings.Contains(err.Error(), "reservedSystemCPUs: CPU 1 is assigned exclusively to pod default/p") {
		t.Error(err)
	}
	// CPU 2 is gone.
	if got := assigned(n.open(t, shape{1, 1, 1, 2, 1}, Options{}, "0"), pod); got != "a shared 0-1" {
		t.Error(got)
	}
	after := n.config(t, eight, Options{}, "1")
	after.BootID = "next"
	if m, err := Open(after); err != nil || assigned(m, pod) != "a shared 0-7" {
		t.Error(err)
	}
	if err := CheckNone(n.file, "next"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(n.file); !errors.Is(err, os.ErrNotExist) {
		t.Error("the file of a policy that is not used is kept")
	}
	if err := CheckNone(n.file, "next"); err != nil {
		t.Error(err)
	}
}

func TestInvalidState(t *testing.T) {
	n := newNode(t)
	for text, want := range map[string]string{
		`{"version":1,"pods":{"u":{"cont`: "is invalid", `{"version":2}`: "version 2", "": "is invalid",
		`{"version":1,"bootID":"boot","pods":{"u":{"containers":{"c":"x"}}}}`: "not a list of CPUs",
	} {
		if err := os.WriteFile(n.file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Open(n.config(t, eight, Options{}, "0"))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), n.file) ||
			!strings.Contains(err.Error(), "remove it") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// A file that cannot be written is not the end: the assignment is in force.
func TestFullDisk(t *testing.T) {
	n := newNode(t)
	cfg := n.config(t, eight, Options{}, "0")
	cfg.File = filepath.Join(cfg.File, "not/there")
	m, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	pod := testPod("p", container("a", "1"))
	if err := assign(m, pod); err != nil || assigned(m, pod) != "a 1" {
		t.Error(err, assigned(m, pod))
	}
}

// Containers of the shared pool get its CPUs whenever it changes, those that run at the start
// too; nothing is set that is set already, and a failed update is repeated.
func TestSharedPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		m := n.open(t, eight, Options{}, "0")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		old := testPod("old", container("a", "500m"))
		n.running = []Container{{Pod: old.UID, Name: "a", ID: "old-a"}}
		go func() { done <- m.Run(ctx) }()
		expect := func(what string, want map[string]string) {
			t.Helper()
			synctest.Wait()
			n.mu.Lock()
			defer n.mu.Unlock()
			if !maps.Equal(n.cpus, want) {
				t.Errorf("%s: %v, want %v", what, n.cpus, want)
			}
		}
		expect("the start", map[string]string{"old-a": "0-7"})
		shared, own := testPod("shared", container("b", "100m")), testPod("own", container("c", "3"))
		n.run(m, shared, "b")
		if err := assign(m, own); err != nil {
			t.Fatal(err)
		}
		n.run(m, own, "c")
		m.Wake()
		expect("an assignment", map[string]string{"old-a": "0,4-7", "shared-b": "0,4-7", "own-c": "1-3"})
		n.mu.Lock()
		n.fail = true
		n.running = n.running[:2]
		delete(n.cpus, "own-c")
		n.mu.Unlock()
		m.Release(own.UID)
		expect("a failed update", map[string]string{"old-a": "0,4-7", "shared-b": "0-7"})
		time.Sleep(retryDelay)
		expect("the retry", map[string]string{"old-a": "0-7", "shared-b": "0-7"})
		// What is as it has to be is not set again.
		n.mu.Lock()
		n.cpus["old-a"] = "untouched"
		n.mu.Unlock()
		m.Wake()
		expect("nothing to do", map[string]string{"old-a": "untouched", "shared-b": "0-7"})
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// Containers that end are forgotten, also those that no list has shown.
func TestEndedContainersAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		m := n.open(t, eight, Options{}, "0")
		pod := testPod("p", container("a", "100m"))
		n.run(m, pod, "a")
		for i := range 100 {
			m.Created(fmt.Sprint(i), "0-7")
		}
		m.reconcile(t.Context())
		if len(m.applied) != 101 {
			t.Errorf("%d containers are known", len(m.applied))
		}
		n.running = nil
		m.reconcile(t.Context())
		time.Sleep(unseenTimeout + time.Second)
		m.reconcile(t.Context())
		if len(m.applied) > 0 {
			t.Errorf("%d containers are known after their end", len(m.applied))
		}
	})
}

// assign assigns CPUs to all containers of a pod, near no NUMA node in particular.
func assign(m *Manager, pod *v1.Pod) error {
	for c := range podinfo.EachContainer(&pod.Spec, podinfo.SpecContainers) {
		if err := m.Assign(pod, c, 0); err != nil {
			m.Release(pod.UID)
			return err
		}
	}
	m.Commit(pod)
	return nil
}

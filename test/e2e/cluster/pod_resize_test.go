package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// wholePod is a pod of an API server whose resources as a whole are resized. Both of its
// containers keep running.
type wholePod struct {
	*resizablePod
	uid     string
	running map[string]harness.Instance
}

// wholeSize are the resources of the pod as a whole, and the CPU limit of its first container.
type wholeSize struct {
	pod   amounts
	first string
}

// newWholePod creates a pod with resources as a whole. Its first container has a CPU limit, the
// other has nothing.
func newWholePod(n *harness.Node, a *harness.Admin, name string, size wholeSize) *wholePod {
	n.T.Helper()
	a.Create(fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  nodeName: %s
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: 5
  resources: %s
  containers:
  - {name: first, image: %[4]s, command: [sh, -c, 'trap exit TERM; sleep 100000 & wait'], resources: {limits: {cpu: %[5]s}, requests: {cpu: 10m}}}
  - {name: second, image: %[4]s, command: [sh, -c, 'trap exit TERM; sleep 100000 & wait']}
`, n.PodName(name), n.Name, size.pod.yaml(), testbed.BusyboxImage, size.first))
	p := &wholePod{resizablePod: &resizablePod{n: n, a: a, name: name}}
	shown := a.AwaitMirror(n, "it is ready", "default", name, harness.PodReady)
	p.uid = string(shown.UID)
	running, err := n.Running(name)
	if err != nil {
		n.T.Fatal(err)
	}
	p.running = running
	p.mustBe(size)
	return p
}

// patch asks for a resize.
func (p *wholePod) patch(size wholeSize) {
	p.n.T.Helper()
	list := func(cpu, memory string) map[string]string { return map[string]string{"cpu": cpu, "memory": memory} }
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{
		"resources": map[string]any{"requests": list(size.pod.cpu, size.pod.memory),
			"limits": list(size.pod.cpuLimit, size.pod.memoryLimit)},
		"containers": []any{map[string]any{"name": "first",
			"resources": map[string]any{"limits": map[string]string{"cpu": size.first}}}},
	}})
	if err != nil {
		p.n.T.Fatal(err)
	}
	p.a.Must("patch", "pod", p.n.PodName(p.name), "--subresource", "resize", "-p", string(patch))
}

// mustBe waits until a resize is complete, and checks that status and kernel have this size, and
// that no container was restarted.
func (p *wholePod) mustBe(size wholeSize) {
	p.n.T.Helper()
	shown := p.a.AwaitMirror(p.n, fmt.Sprintf("%s is resized to %v", p.name, size), "default", p.name,
		func(shown *v1.Pod) error {
			if left := resizeConditions(shown); shown.Status.ObservedGeneration < shown.Generation || len(left) > 0 {
				return fmt.Errorf("generation %d of %d: %+v", shown.Status.ObservedGeneration, shown.Generation, left)
			}
			return nil
		})
	p.mustShow(shown, size.pod, size.pod)
	p.mustHaveInKernel(size.pod)
	running, err := p.n.Running(p.name)
	if err != nil {
		p.n.T.Fatal(err)
	}
	if !reflect.DeepEqual(running, p.running) {
		p.n.T.Errorf("%s runs as %v, was %v", p.name, running, p.running)
	}
	p.checkQuota(size.first)
}

// mustShow checks which resources the status has, and which are allocated.
func (p *wholePod) mustShow(shown *v1.Pod, has, allocated amounts) {
	p.n.T.Helper()
	text := func(list v1.ResourceList) string { return list.Cpu().String() + " " + list.Memory().String() }
	r := shown.Status.Resources
	if r == nil {
		p.n.T.Errorf("%s: the status has no resources", p.name)
		return
	}
	if got, want := []string{text(r.Requests), text(r.Limits), text(shown.Status.AllocatedResources)},
		[]string{has.cpu + " " + has.memory, has.cpuLimit + " " + has.memoryLimit,
			allocated.cpu + " " + allocated.memory}; !slices.Equal(got, want) {
		p.n.T.Errorf("%s has requests, limits and allocated resources %q, want %q", p.name, got, want)
	}
}

// mustHaveInKernel checks the cgroup of the pod.
func (p *wholePod) mustHaveInKernel(size amounts) {
	p.n.T.Helper()
	cgroup := filepath.Join(p.n.CgroupRoot(), "burstable", "pod"+p.uid)
	r := v1.ResourceRequirements{Requests: quantities(size.cpu, size.memory),
		Limits: quantities(size.cpuLimit, size.memoryLimit)}
	p.n.MustHaveValue("cpu", cgroup, "cpu.shares", fmt.Sprint(r.Requests.Cpu().MilliValue()*1024/1000))
	p.n.MustHaveValue("cpu", cgroup, "cpu.cfs_quota_us", fmt.Sprint(r.Limits.Cpu().MilliValue()*100))
	p.n.MustHaveValue("memory", cgroup, "memory.limit_in_bytes", fmt.Sprint(r.Limits.Memory().Value()))
}

// quantities parses amounts of CPU and memory.
func quantities(cpu, memory string) v1.ResourceList {
	return v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory)}
}

// resizeErrors returns when and how often the pod's resizes failed, as the events say; empty if none did.
func (p *wholePod) resizeErrors() string {
	p.n.T.Helper()
	e, ok := p.eventsByReason()["ResizeError"]
	if !ok {
		return ""
	}
	return fmt.Sprint(e.Count, " times, at last at ", e.LastTimestamp, ": ", e.Message)
}

// checkQuota checks the CPU limit of the first container in the kernel.
func (p *wholePod) checkQuota(limit string) {
	p.n.T.Helper()
	at, err := harness.CgroupPath(p.running["first"].Pid, "cpu")
	if err != nil {
		p.n.T.Fatal(err)
	}
	limits := quantities(limit, "0")
	p.n.MustHaveValue("cpu", at, "cpu.cfs_quota_us", fmt.Sprint(limits.Cpu().MilliValue()*100))
}

// checkPodLevelResize checks resizes of spec.resources through an API server, which allows them
// because the node declares that it can make them. most is more memory than other pods leave.
func checkPodLevelResize(n *harness.Node, a *harness.Admin, most string) {
	original := wholeSize{amounts{"100m", "200m", "64Mi", "128Mi"}, "200m"}
	p := newWholePod(n, a, "whole", original)
	for _, size := range []wholeSize{
		{amounts{"150m", "300m", "96Mi", "192Mi"}, "200m"},
		// Pod and container grow and shrink at once: the kernel accepts no container with more
		// CPU than its pod.
		{amounts{"150m", "400m", "96Mi", "192Mi"}, "400m"},
		{amounts{"50m", "100m", "32Mi", "64Mi"}, "100m"},
		original,
	} {
		p.patch(size)
		p.mustBe(size)
	}
	p.awaitEvents("ResizeCompleted", "ResizeStarted")

	// It waits for room.
	large := wholeSize{amounts{"100m", "200m", most, most}, "200m"}
	p.patch(large)
	shown := p.awaitResizeCondition(v1.PodResizePending, v1.PodReasonDeferred, "not enough memory")
	p.mustShow(shown, original.pod, original.pod)
	p.mustHaveInKernel(original.pod)
	p.patch(original)
	p.mustBe(original)

	// Less memory than is used: the containers, which have no limit of their own, have that of the pod.
	tiny := wholeSize{amounts{"100m", "200m", "8Ki", "8Ki"}, "200m"}
	p.patch(tiny)
	shown = p.awaitResizeCondition(v1.PodResizeInProgress, v1.PodReasonError,
		"cannot set container second memory limit (8192) below current usage")
	p.mustShow(shown, original.pod, tiny.pod)
	p.mustHaveInKernel(original.pod)
	// A daemon that is started meanwhile shows what the pod has, too. Until it has tried the resize, which it reports
	// by an event, it reports the status that the API server has.
	failures := p.resizeErrors()
	n.Restart()
	n.Await("the new daemon has tried the resize", func() error {
		if now := p.resizeErrors(); now == "" || now == failures {
			return errors.New(now)
		}
		return nil
	})
	now := n.AwaitStatus("whole", "its resize fails again", func(now v1.Pod) error {
		for _, c := range resizeConditions(&now) {
			if c.Type == v1.PodResizeInProgress && c.Reason == v1.PodReasonError {
				return nil
			}
		}
		return fmt.Errorf("%+v", now.Status.Conditions)
	})
	p.mustShow(&now, original.pod, tiny.pod)
	p.mustHaveInKernel(original.pod)
	p.patch(original)
	p.mustBe(original)

	n.Restart()
	p.mustBe(original)
	for _, e := range p.eventsByReason() {
		if strings.Contains(e.Message, "unable to ensure pod container exists") && !strings.Contains(e.Message, "in use") {
			n.T.Errorf("%s: %s", e.Reason, e.Message)
		}
	}
}

package cluster

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// amounts are requests and limits of a container; an empty one is absent.
type amounts struct{ cpu, cpuLimit, memory, memoryLimit string }

// guaranteed returns equal requests and limits.
func guaranteed(cpu, memory string) amounts { return amounts{cpu, cpu, memory, memory} }

func (a amounts) yaml() string {
	list := func(cpu, memory string) string {
		var parts []string
		if cpu != "" {
			parts = append(parts, "cpu: "+cpu)
		}
		if memory != "" {
			parts = append(parts, "memory: "+memory)
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return fmt.Sprintf("{requests: %s, limits: %s}", list(a.cpu, a.memory), list(a.cpuLimit, a.memoryLimit))
}

// resizablePod is a pod of an API server whose containers are resized.
type resizablePod struct {
	n    *harness.Node
	a    *harness.Admin
	name string
	// containers are those of the spec, "side" is a sidecar.
	containers []string
	restarts   map[string]int32
}

// newResizablePod creates the pod and waits until it is ready. policy is the resizePolicy of
// each container.
func newResizablePod(n *harness.Node, a *harness.Admin, name, policy string, containers []string,
	sizes map[string]amounts) *resizablePod {
	n.T.Helper()
	var init, regular strings.Builder
	for _, c := range containers {
		list, more := &regular, ""
		if c == "side" {
			list, more = &init, ", restartPolicy: Always"
		}
		fmt.Fprintf(list, "  - {name: %s, image: %s, command: [sh, -c, 'trap exit TERM; sleep 100000 & wait'], "+
			"resizePolicy: %s, resources: %s%s}\n",
			c, testbed.BusyboxImage, policy, sizes[c].yaml(), more)
	}
	text := fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec:\n  nodeName: %s\n  "+
		"automountServiceAccountToken: false\n  terminationGracePeriodSeconds: 5\n  restartPolicy: OnFailure\n",
		n.PodName(name), n.Name)
	if init.Len() > 0 {
		text += "  initContainers:\n" + init.String()
	}
	a.Create(text + "  containers:\n" + regular.String())
	p := &resizablePod{n: n, a: a, name: name, containers: containers, restarts: map[string]int32{}}
	p.mustHave(nil)
	return p
}

// resize changes the resources of containers through the subresource. No status that reports that
// the change was observed may claim that nothing is left to do before the kernel has it.
func (p *resizablePod) resize(sizes map[string]amounts, restarted ...string) {
	p.n.T.Helper()
	var init, regular []string
	for _, c := range p.containers {
		size, ok := sizes[c]
		if !ok {
			continue
		}
		patch := fmt.Sprintf("{name: %s, resources: %s}", c, size.yaml())
		if c == "side" {
			init = append(init, patch)
		} else {
			regular = append(regular, patch)
		}
	}
	spec := "containers: [" + strings.Join(regular, ", ") + "]"
	if len(init) > 0 {
		spec += ", initContainers: [" + strings.Join(init, ", ") + "]"
	}
	text, err := yaml.YAMLToJSON([]byte("{spec: {" + spec + "}}"))
	if err != nil {
		p.n.T.Fatal(err)
	}
	p.a.Must("patch", "pod", p.n.PodName(p.name), "--subresource", "resize", "-p", string(text))
	for _, c := range restarted {
		p.restarts[c]++
	}
	p.mustHave(sizes)
}

// resizeConditions returns the conditions of a resize.
func resizeConditions(p *v1.Pod) (list []v1.PodCondition) {
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodResizePending || c.Type == v1.PodResizeInProgress {
			list = append(list, c)
		}
	}
	return list
}

// mustHave waits until the status reports that the spec was observed and no resize is left, and
// then checks at once what the status has, and what the kernel has.
func (p *resizablePod) mustHave(sizes map[string]amounts) {
	p.n.T.Helper()
	shown := p.a.AwaitMirror(p.n, fmt.Sprintf("%s is resized to %v", p.name, sizes), "default", p.name,
		func(shown *v1.Pod) error {
			if shown.Status.ObservedGeneration < shown.Generation {
				return fmt.Errorf("generation %d of %d", shown.Status.ObservedGeneration, shown.Generation)
			}
			if left := resizeConditions(shown); len(left) > 0 {
				return fmt.Errorf("%+v", left)
			}
			return harness.PodReady(shown)
		})
	running, err := p.n.Running(p.name)
	if err != nil {
		p.n.T.Fatal(err)
	}
	statuses := slices.Concat(shown.Status.InitContainerStatuses, shown.Status.ContainerStatuses)
	for spec := range podinfo.EachContainer(&shown.Spec, podinfo.SpecContainers) {
		i := slices.IndexFunc(statuses, func(s v1.ContainerStatus) bool { return s.Name == spec.Name })
		if i < 0 {
			p.n.T.Errorf("%s has no status", spec.Name)
			continue
		}
		s := statuses[i]
		if s.Resources == nil || !reflect.DeepEqual(*s.Resources, spec.Resources) ||
			!reflect.DeepEqual(s.AllocatedResources, spec.Resources.Requests) {
			p.n.T.Errorf("%s: status %+v, allocated %v, spec %+v", spec.Name, s.Resources, s.AllocatedResources, spec.Resources)
		}
		if s.RestartCount != p.restarts[spec.Name] {
			p.n.T.Errorf("%s was restarted %d times, want %d", spec.Name, s.RestartCount, p.restarts[spec.Name])
		}
		p.checkKernel(running[spec.Name], spec)
	}
}

// checkKernel checks the limits of a running container.
func (p *resizablePod) checkKernel(i harness.Instance, spec *v1.Container) {
	p.n.T.Helper()
	memory, quota := "9223372036854771712", "-1"
	if limit, ok := spec.Resources.Limits[v1.ResourceMemory]; ok {
		memory = fmt.Sprint(limit.Value())
	}
	if limit, ok := spec.Resources.Limits[v1.ResourceCPU]; ok {
		quota = fmt.Sprint(max(limit.MilliValue()*100, 1000))
	}
	for file, want := range map[string]string{"memory.limit_in_bytes": memory, "cpu.cfs_quota_us": quota} {
		controller, _, _ := strings.Cut(file, ".")
		at, err := harness.CgroupPath(i.Pid, controller)
		if err != nil {
			p.n.T.Error(err)
			continue
		}
		if got, err := harness.CgroupValue(controller, at, file); err != nil || got != want {
			p.n.T.Errorf("%s of %s is %s (%v), want %s", file, spec.Name, got, err, want)
		}
	}
}

// awaitResizeCondition waits for a condition of the resize that the spec has now.
func (p *resizablePod) awaitResizeCondition(kind v1.PodConditionType, reason, words string) *v1.Pod {
	p.n.T.Helper()
	return p.a.AwaitMirror(p.n, fmt.Sprintf("%s has %s %s", p.name, kind, reason), "default", p.name,
		func(shown *v1.Pod) error {
			list := resizeConditions(shown)
			if len(list) != 1 || list[0].Type != kind || list[0].Reason != reason || !strings.Contains(list[0].Message, words) ||
				list[0].ObservedGeneration != shown.Generation {
				return fmt.Errorf("generation %d: %+v", shown.Generation, list)
			}
			return nil
		})
}

// eventsByReason returns the newest event of the pod of each reason.
func (p *resizablePod) eventsByReason() map[string]v1.Event {
	p.n.T.Helper()
	all, err := p.n.Events(p.name)
	if err != nil {
		p.n.T.Fatal(err)
	}
	return all
}

// events returns the reasons of the events of resizes.
func (p *resizablePod) events() (reasons []string) {
	p.n.T.Helper()
	for _, e := range p.eventsByReason() {
		if strings.HasPrefix(e.Reason, "Resize") && !slices.Contains(reasons, e.Reason) {
			reasons = append(reasons, e.Reason)
		}
	}
	slices.Sort(reasons)
	return reasons
}

// awaitEvents waits until the events of resizes have exactly these reasons.
func (p *resizablePod) awaitEvents(reasons ...string) {
	p.n.T.Helper()
	p.n.Await("the events of "+p.name, func() error {
		if got := p.events(); !slices.Equal(got, reasons) {
			return fmt.Errorf("%q, want %q", got, reasons)
		}
		return nil
	})
}

// Resizes through an API server, as Kubernetes' own tests make them: each is made and made
// undone, in place or with a restart, and its progress is in the status at every time.
func TestClusterResize(t *testing.T) {
	t.Parallel()
	n := harness.NewNode(t, harness.SharedRuntime(t, testbed.Containerd24))
	ctx := t.Context()
	_, a, kubeconfig := harness.NewCluster(ctx, n)
	n.Args = append(n.Args, "--kubeconfig", kubeconfig)
	a.Must("create", "serviceaccount", "default")
	n.MustStart()

	const inPlace = "[{resourceName: cpu, restartPolicy: NotRequired}, {resourceName: memory, restartPolicy: NotRequired}]"
	const restartForMemory = "[{resourceName: cpu, restartPolicy: NotRequired}, {resourceName: memory, restartPolicy: " +
		"RestartContainer}]"
	original := map[string]amounts{"side": guaranteed("20m", "35Mi"), "main": guaranteed("22m", "37Mi")}
	two := []string{"side", "main"}
	web := newResizablePod(n, a, "guaranteed", inPlace, two, original)
	for _, sizes := range []map[string]amounts{
		{"main": guaranteed("25m", "37Mi")},
		{"side": guaranteed("25m", "30Mi"), "main": guaranteed("27m", "32Mi")},
	} {
		web.resize(sizes)
		web.resize(original)
	}
	web.awaitEvents("ResizeCompleted", "ResizeStarted")

	again := newResizablePod(n, a, "restarting", restartForMemory, two, original)
	again.resize(map[string]amounts{"main": guaranteed("25m", "37Mi")})
	again.resize(map[string]amounts{"side": guaranteed("20m", "40Mi"), "main": guaranteed("25m", "42Mi")}, "side", "main")
	again.resize(original, "side", "main")

	// Requests and limits are added, of one resource or of both; tiny amounts.
	burstable := newResizablePod(n, a, "burstable", inPlace, []string{"c1", "c2", "c3", "c4", "c5"}, map[string]amounts{
		"c1": {cpu: "20m"}, "c2": {memory: "35Mi"}, "c3": {cpu: "20m", memory: "35Mi"}, "c4": {cpu: "2m", cpuLimit: "10m"},
	})
	burstable.resize(map[string]amounts{
		"c1": {cpu: "25m", cpuLimit: "35m"}, "c2": {memory: "30Mi", memoryLimit: "50Mi"}, "c3": {cpu: "20m", memory: "30Mi"},
		"c4": {cpu: "1m", cpuLimit: "5m"}, "c5": {cpu: "20m"},
	})

	// A memory limit below the usage is refused, with what it is and what is used; then reverted.
	small := newResizablePod(n, a, "small", inPlace, []string{"main"},
		map[string]amounts{"main": {memory: "35Mi", memoryLimit: "35Mi"}})
	a.Must("patch", "pod", n.PodName("small"), "--subresource", "resize", "-p",
		`{"spec": {"containers": [{"name": "main", "resources": {"requests": {"memory": "10Ki"}, "limits": {"memory": "10Ki"}}}]}}`)
	shown := small.awaitResizeCondition(v1.PodResizeInProgress, v1.PodReasonError,
		"memory limit (10240) below current usage")
	if s := shown.Status.ContainerStatuses[0]; s.Resources.Limits.Memory().String() != "35Mi" ||
		s.AllocatedResources.Memory().String() != "10Ki" {
		t.Errorf("resources %+v, allocated %v", s.Resources, s.AllocatedResources)
	}
	small.resize(map[string]amounts{"main": {memory: "35Mi", memoryLimit: "35Mi"}})
	small.awaitEvents("ResizeCompleted", "ResizeError", "ResizeStarted")

	// A resize waits for room.
	var registered v1.Node
	if err := a.Get(&registered, "node", n.Name); err != nil {
		t.Fatal(err)
	}
	part := func(percent int64) string {
		return fmt.Sprintf("%dMi", registered.Status.Allocatable.Memory().Value()/100*percent>>20)
	}
	large := newResizablePod(n, a, "large", inPlace, []string{"main"}, map[string]amounts{"main": {memory: part(60)}})
	growing := newResizablePod(n, a, "growing", inPlace, []string{"main"}, map[string]amounts{"main": {memory: part(10)}})
	a.Must("patch", "pod", n.PodName("growing"), "--subresource", "resize", "-p",
		fmt.Sprintf(`{"spec": {"containers": [{"name": "main", "resources": {"requests": {"memory": %q}}}]}}`, part(50)))
	shown = growing.awaitResizeCondition(v1.PodResizePending, v1.PodReasonDeferred, "not enough memory")
	if s := shown.Status.ContainerStatuses[0]; s.Resources.Requests.Memory().String() != part(10) ||
		s.AllocatedResources.Memory().String() != part(10) {
		t.Errorf("resources %+v, allocated %v", s.Resources, s.AllocatedResources)
	}
	large.resize(map[string]amounts{"main": {memory: part(20)}})
	growing.mustHave(map[string]amounts{"main": {memory: part(50)}})
	growing.awaitEvents("ResizeCompleted", "ResizeDeferred", "ResizeStarted")

	checkPodLevelResize(n, a, part(60))

	// The phase of a failed pod is withheld while its sidecar runs.
	d := harness.NewEventLog(n)
	text := d.Pod(n.PodName("failing"), "Never", [][3]string{
		{"side", "trap '" + harness.AppendLine("term") + "until [ -e /v/go ]; do sleep 0.05; done; exit 0' TERM; " +
			harness.AppendLine("side") + "while :; do sleep 0.05; done", ", restartPolicy: Always"},
		{"init", "until [ -e /v/events ]; do sleep 0.05; done; exit 1", ""},
	}, [][3]string{{"main", "true", ""}})
	text = strings.Replace(text, "terminationGracePeriodSeconds: 300",
		"terminationGracePeriodSeconds: 300\n  automountServiceAccountToken: false\n  nodeName: "+n.Name, 1)
	a.Create(text)
	d.Await("side", "term")
	shown = a.AwaitMirror(n, "the init container has failed", "default", "failing", func(p *v1.Pod) error {
		if s := p.Status.InitContainerStatuses; len(s) != 2 || s[1].State.Terminated == nil {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	if shown.Status.Phase != v1.PodPending {
		t.Errorf("while its sidecar runs it is %s", shown.Status.Phase)
	}
	d.Touch("go")
	a.AwaitMirror(n, "it is Failed", "default", "failing", func(p *v1.Pod) error {
		if p.Status.Phase != v1.PodFailed {
			return errors.New(string(p.Status.Phase))
		}
		return nil
	})
}

package status

import (
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/cri"
)

var (
	now     = time.Date(2026, 3, 1, 12, 0, 0, 500, time.UTC)
	earlier = now.Add(-time.Hour)
)

// pod returns a pod with one regular container "web", or with those that edit
// adds.
func pod(policy v1.RestartPolicy, edit ...func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web-node", Namespace: "default", UID: "u1"},
		Spec: v1.PodSpec{
			RestartPolicy: policy,
			Containers:    []v1.Container{{Name: "web", Image: "web:1"}},
		},
	}
	for _, e := range edit {
		e(p)
	}
	return p
}

func containers(names ...string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.Containers = nil
		for _, n := range names {
			p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: n, Image: n + ":1"})
		}
	}
}

func initContainers(names ...string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		for _, n := range names {
			p.Spec.InitContainers = append(p.Spec.InitContainers, v1.Container{Name: n, Image: n + ":1"})
		}
	}
}

func sidecar(name string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		always := v1.ContainerRestartPolicyAlways
		p.Spec.InitContainers = append(p.Spec.InitContainers, v1.Container{Name: name, RestartPolicy: &always})
	}
}

func hostNetwork(p *v1.Pod) { p.Spec.HostNetwork = true }

// observed returns a ready sandbox "s" with these containers, newest first.
func observed(cs ...cri.Container) *cri.PodStatus {
	for i := range cs {
		cs[i].SandboxID = "s"
		if cs[i].ID == "" {
			cs[i].ID = cs[i].Name + "-id"
		}
	}
	return &cri.PodStatus{
		UID:        "u1",
		Sandboxes:  []cri.Sandbox{{ID: "s", Ready: true, IPs: []string{"10.0.0.1"}}},
		Containers: cs,
		IPs:        []string{"10.0.0.1"},
		At:         now,
	}
}

func running(name string) cri.Container {
	return cri.Container{Name: name, State: cri.StateRunning, StartedAt: earlier, Image: name + ":1",
		ImageRef: "sha256:" + name}
}

func exited(name string, code int32) cri.Container {
	reason := "Completed"
	if code != 0 {
		reason = "Error"
	}
	return cri.Container{Name: name, State: cri.StateExited, StartedAt: earlier, FinishedAt: now, ExitCode: code,
		Reason: reason}
}

func inState(name string, s cri.State) cri.Container { return cri.Container{Name: name, State: s} }

func id(c cri.Container, id string) cri.Container { c.ID = id; return c }

func count(c cri.Container, n int) cri.Container { c.RestartCount = n; return c }

func status(st v1.PodStatus, name string) *v1.ContainerStatus {
	if s := find(st.ContainerStatuses, name); s != nil {
		return s
	}
	return find(st.InitContainerStatuses, name)
}

func condition(st v1.PodStatus, t v1.PodConditionType) *v1.PodCondition {
	for i := range st.Conditions {
		if st.Conditions[i].Type == t {
			return &st.Conditions[i]
		}
	}
	return nil
}

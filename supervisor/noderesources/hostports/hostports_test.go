package hostports

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/supervisor/noderesources"
	"github.com/podstead/podstead/supervisor/noderesources/noderesourcestest"
)

// events records events.
type events []string

func (e *events) Event(_ *v1.Pod, eventType, reason, message string) {
	*e = append(*e, eventType+" "+reason+": "+message)
}

// The rules are made before each sandbox that maps ports of the host, and for no other.
func TestRules(t *testing.T) {
	sandbox := func(change func(*cri.Sandbox)) *cri.PodStatus {
		s := cri.Sandbox{Ready: true, IPs: []string{"10.0.0.2"}}
		change(&s)
		return &cri.PodStatus{Sandboxes: []cri.Sandbox{s}}
	}
	for name, c := range map[string]struct {
		port        int32
		hostNetwork bool
		observed    *cri.PodStatus
		want        bool
	}{
		"a host port":        {8080, false, &cri.PodStatus{}, true},
		"no host port":       {0, false, &cri.PodStatus{}, false},
		"the host's network": {8080, true, &cri.PodStatus{}, false},
		"a pod that runs":    {8080, false, sandbox(func(*cri.Sandbox) {}), false},
		"a dead sandbox":     {8080, false, sandbox(func(s *cri.Sandbox) { s.Ready = false }), true},
		// These are ready, and the pod still gets another one.
		"a sandbox without an address":          {8080, false, sandbox(func(s *cri.Sandbox) { s.IPs = nil }), true},
		"a sandbox that is on the host network": {8080, false, sandbox(func(s *cri.Sandbox) { s.HostNetwork = true }), true},
	} {
		pod := &v1.Pod{Spec: v1.PodSpec{HostNetwork: c.hostNetwork,
			Containers: []v1.Container{{Ports: []v1.ContainerPort{{ContainerPort: 8080, HostPort: c.port}}}}}}
		var made []string
		rule := func(name string) func(context.Context) {
			return func(context.Context) { made = append(made, name) }
		}
		r := &Resource{Rules: []func(context.Context){rule("a"), rule("b")}, Proc: t.TempDir()}
		if refusal := r.Prepare(t.Context(), &noderesources.Start{Pod: pod, Observed: c.observed}); refusal != nil {
			t.Errorf("%s: %v", name, refusal)
		}
		if got := strings.Join(made, " "); (got == "a b") != c.want || (got == "") == c.want {
			t.Errorf("%s: made %q, want them: %v", name, got, c.want)
		}
	}
}

// A process of the host that listens on the port is reported, and does not keep the pod from starting.
func TestListener(t *testing.T) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	port := int32(netip.MustParseAddrPort(listener.Addr().String()).Port())
	pod := &v1.Pod{Spec: v1.PodSpec{
		Containers: []v1.Container{{Ports: []v1.ContainerPort{{ContainerPort: 80, HostPort: port}}}}}}
	var got events
	r := &Resource{Events: &got, Proc: "/proc"}
	start := &noderesources.Start{Pod: pod, Observed: &cri.PodStatus{}}
	if refusal := r.Prepare(t.Context(), start); refusal != nil {
		t.Error(refusal)
	}
	if len(got) != 1 || !strings.HasPrefix(got[0], "Warning HostPortConflict: hostPort ") ||
		!strings.Contains(got[0], "process hostports.test") {
		t.Errorf("events %q", got)
	}
	_ = listener.Close()
	if r.Prepare(t.Context(), start); len(got) != 1 {
		t.Errorf("after it was closed: %q", got[1:])
	}
}

func TestMethods(t *testing.T) {
	if err := noderesourcestest.CheckMethods(&Resource{}); err != nil {
		t.Error(err)
	}
}

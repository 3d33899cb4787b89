package systemd

import (
	"errors"
	"strings"
	"testing"
)

// Debian's containerd has no pod network after its installation. podstead check prints the
// command that creates one, podstead check --fix runs it, and a pod gets an address.
func TestCheckFixCreatesThePodNetwork(t *testing.T) {
	t.Parallel()
	s := boot(t, false)
	s.Run("sh", "-c", "rm /etc/cni/net.d/*; systemctl restart containerd; chmod o+w /etc/pods")
	n := s.Node()
	n.Await("status names podstead check", func() error {
		if out := s.Try("podstead", "status"); !strings.Contains(out, "podstead check examines this host") {
			return errors.New(out)
		}
		return nil
	})
	s.Run("sh", "-c",
		`sed 's/hostNetwork: true/hostNetwork: false/; s/name: p/name: net/' /etc/pods/p.yaml >/etc/pods/net.yaml`)
	n.Await("the pod waits for a network", func() error {
		if out := s.Try("podstead", "describe", "pod", "net-sd"); !strings.Contains(out, "NetworkNotReady") {
			return errors.New(out)
		}
		return nil
	})
	// Without --fix it changes nothing.
	if out := s.Try("podstead", "check"); !strings.Contains(out, "fix: mkdir -p /etc/cni/net.d && echo '{\"cniVersion\"") {
		t.Errorf("check printed:\n%s", out)
	}
	if out := s.Try("sh", "-c", "ls /etc/cni/net.d"); out != "" {
		t.Errorf("check wrote %s", out)
	}
	out := s.Try("podstead", "check", "--fix")
	for _, want := range []string{"+ mkdir -p /etc/cni/net.d && echo ", "+ chmod o-w /etc/pods",
		"/etc/cni/net.d/10-podstead.conflist and all its plugins are installed",
		"/etc/pods exists and is not world-writable"} {
		if !strings.Contains(out, want) {
			t.Errorf("check --fix does not print %q:\n%s", want, out)
		}
	}
	n.AwaitRunning("net")
	if out := s.Try("podstead", "exec", "net-sd", "--", "ip", "-4", "-o", "addr", "show", "eth0"); !strings.Contains(out,
		"inet 10.") {
		t.Errorf("the pod's address: %s", out)
	}
}

package systemd

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/image"
	"github.com/podstead/podstead/test/testbed"
)

// restrictedPod uses what restrictions of the daemon or of its containerd could break: a setuid
// program, a host port, a mounted volume, a volume with a group, a privileged container.
const restrictedPod = `apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  terminationGracePeriodSeconds: 0
  securityContext: {fsGroup: 3000}
  volumes: [{name: memory, emptyDir: {medium: Memory}}, {name: disk, emptyDir: {}}]
  containers:
    - name: main
      image: IMAGE
      command: [/bin/portserver]
      securityContext: {runAsUser: 1000, seccompProfile: {type: Unconfined}}
      ports: [{containerPort: 7001, hostPort: 7101}]
      volumeMounts: [{name: memory, mountPath: /memory}, {name: disk, mountPath: /disk}]
    - {name: default, image: IMAGE, command: [sleep, "100000"]}
    - {name: privileged, image: IMAGE, command: [sleep, "100000"], securityContext: {privileged: true}}
`

// pushSetuidImage pushes an image with a setuid program that prints its effective user ID.
func pushSetuidImage(t *testing.T) (ref string, img image.Image) {
	t.Helper()
	program, err := os.ReadFile(testbed.PortServer())
	if err != nil {
		t.Fatal(err)
	}
	if img, err = testbed.Busybox(); err != nil {
		t.Fatal(err)
	}
	archive, err := image.Tar([]image.File{{Name: "bin/portserver", Data: program},
		{Name: "bin/setuid", Data: program, Mode: 0o4755}})
	if err != nil {
		t.Fatal(err)
	}
	ref, img = "docker.io/library/setuid:1", img.WithLayer(image.PlainLayer(archive))
	if err := harness.Registry.Push(ref, img); err != nil {
		t.Fatal(err)
	}
	return ref, img
}

// bootRestricted boots a machine with restrictedPod.
func bootRestricted(t *testing.T, private bool, more map[string]string) *harness.Machine {
	t.Helper()
	ref, _ := pushSetuidImage(t)
	more["etc/podstead/config.yaml"] = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: " +
		"KubeletConfiguration\nseccompDefault: true\n"
	more["etc/pods/p.yaml"] = strings.ReplaceAll(restrictedPod, "IMAGE", ref)
	if !private {
		more["etc/cni/net.d/10-bed.conflist"] = `{"cniVersion": "0.4.0", "name": "bed", "plugins": [
			{"type": "bridge", "bridge": "bed0", "isGateway": true, "ipMasq": true, "ipam": {"type": "host-local", "routes": [{"dst": "0.0.0.0/0"}], "ranges": [[{"subnet": "10.210.0.0/24"}]]}},
			{"type": "portmap", "capabilities": {"portMappings": true}}]}`
	}
	return boot(t, private, more)
}

// status returns the lines of /proc/PID/status of a process of the machine, and its namespaces.
func status(s *harness.Machine, pid string) map[string]string {
	s.T.Helper()
	lines := map[string]string{}
	for line := range strings.Lines(s.Try("cat", "/proc/"+pid+"/status")) {
		key, value, _ := strings.Cut(line, ":")
		lines[key] = strings.TrimSpace(value)
	}
	for _, kind := range []string{"mnt", "uts", "ipc", "net", "pid", "user"} {
		lines[kind] = s.Try("readlink", "/proc/"+pid+"/ns/"+kind)
	}
	return lines
}

// responds fails unless a TCP port of the machine returns what is sent.
func responds(address string) error {
	conn, err := net.DialTimeout("tcp", address, time.Minute)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "hello"); err != nil {
		return err
	}
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return err
	}
	got := make([]byte, 5)
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != "hello" {
		return fmt.Errorf("it answers %q: %v", got, err)
	}
	return nil
}

// checkRestrictedPod checks from inside the machine's containers that nothing restricts them,
// and that the daemon can do what the pod needs.
func checkRestrictedPod(s *harness.Machine) {
	s.T.Helper()
	harness.Await(s.T, "the pod is ready", func() error {
		if out := s.Try("podstead", "get", "pods"); !strings.Contains(out, "3/3") {
			return errors.New(out)
		}
		return nil
	})
	harness.Await(s.T, "the host port answers",
		func() error { return responds(harness.MachineAddress(s.Number) + ":7101") })
	in := func(container string, command ...string) string {
		return s.Try(append([]string{"podstead", "exec", "p", "-c", container, "--"}, command...)...)
	}
	// systemd-nspawn installs a filter for the whole machine.
	var installed int
	if _, err := fmt.Sscan(status(s, "1")["Seccomp_filters"], &installed); err != nil {
		s.T.Fatal(err)
	}
	filters, oneMore := fmt.Sprint("Seccomp_filters:\t", installed), fmt.Sprint("Seccomp_filters:\t", installed+1)
	for _, c := range []struct{ container, command, want string }{
		{"main", "id -u", "1000"},
		{"main", "setuid uid", "0"},
		{"main", "grep -c ' /memory tmpfs ' /proc/mounts", "1"},
		{"main", "stat -c %g:%A /disk", "3000:drwxrwsrwx"},
		{"main", "grep NoNewPrivs /proc/1/status", "NoNewPrivs:\t0"},
		{"main", "grep Seccomp_filters /proc/1/status", filters},
		{"default", "grep Seccomp_filters /proc/1/status", oneMore}, // seccompDefault
		{"privileged", "grep NoNewPrivs /proc/1/status", "NoNewPrivs:\t0"},
		{"privileged", "grep Seccomp_filters /proc/1/status", filters},
		{"privileged", "grep CapBnd /proc/1/status", "CapBnd:\t" + status(s, "1")["CapBnd"]},
	} {
		if got := in(c.container, "sh", "-c", c.command); got != c.want {
			s.T.Errorf("%s in %s: %q, want %q", c.command, c.container, got, c.want)
		}
	}
	if out := s.Try("iptables", "-S", "PODSTEAD-LOCALNET"); !strings.Contains(out, "-N PODSTEAD-LOCALNET") {
		s.T.Errorf("the daemon did not install its firewall rule: %s", out)
	}
	port := harness.HostPort()
	forward := exec.Command(testbed.Product(), "port-forward", "--api-socket",
		fmt.Sprintf("/proc/%d/root/run/podstead/podstead.sock", s.PID), "p", fmt.Sprint(port, ":7001"))
	if err := forward.Start(); err != nil {
		s.T.Fatal(err)
	}
	harness.Await(s.T, "the forwarded port answers", func() error { return responds(fmt.Sprint("127.0.0.1:", port)) })
	_ = forward.Process.Kill()
	_ = forward.Wait()
}

// The unit as shipped restricts no container of a private containerd, and has no namespace of
// its own.
func TestUnitRestrictsNoContainer(t *testing.T) {
	t.Parallel()
	s := bootRestricted(t, true, map[string]string{})
	checkRestrictedPod(s)
	daemon, first := status(s, s.MainPid()), status(s, "1")
	for _, key := range []string{"mnt", "uts", "ipc", "net", "pid", "user", "NoNewPrivs", "Seccomp_filters", "CapBnd"} {
		if daemon[key] == "" || daemon[key] != first[key] {
			t.Errorf("%s of the daemon is %q, of systemd %q", key, daemon[key], first[key])
		}
	}
	s.Run("systemctl", "stop", "podstead")
}

// With a runtime of its own unit, the daemon does its work with the restrictions of the example,
// and the containers have none of them.
func TestHardenedUnit(t *testing.T) {
	t.Parallel()
	hardening, err := os.ReadFile(filepath.Join(testbed.SourceRoot(), "examples", "podstead-hardening.conf"))
	if err != nil {
		t.Fatal(err)
	}
	s := bootRestricted(t, false,
		map[string]string{"etc/systemd/system/podstead.service.d/hardening.conf": string(hardening)})
	checkRestrictedPod(s)
	daemon, first := status(s, s.MainPid()), status(s, "1")
	for _, kind := range []string{"mnt", "uts", "ipc", "net", "pid", "user"} {
		if daemon[kind] == "" || daemon[kind] != first[kind] {
			t.Errorf("the daemon has a %s namespace of its own: %q", kind, daemon[kind])
		}
	}
	var bounding uint64
	if _, err := fmt.Sscanf(daemon["CapBnd"], "%x", &bounding); err != nil {
		t.Fatal(err)
	}
	const sysModule, sysAdmin = 16, 21
	if daemon["NoNewPrivs"] != "1" || daemon["Seccomp_filters"] == first["Seccomp_filters"] ||
		bounding>>sysModule&1 != 0 || bounding>>sysAdmin&1 != 1 {
		t.Errorf("the daemon has NoNewPrivs %s, Seccomp_filters %s, CapBnd %s", daemon["NoNewPrivs"],
			daemon["Seccomp_filters"], daemon["CapBnd"])
	}
	if out := s.Try("journalctl", "-b", "-o", "cat", "--no-pager", "_PID=1"); strings.Contains(out, "hardening.conf:") {
		t.Errorf("systemd does not understand the example: %s", out)
	}
	// Images are loaded with ctr.
	_, img := pushSetuidImage(t)
	harness.SaveImage(t, filepath.Join(s.Root, "root/image.tar"), "docker.io/library/loaded:1", img)
	s.Run("podstead", "images", "load", "/root/image.tar")
	s.Run("systemctl", "restart", "podstead")
	checkRestrictedPod(s)
	s.Run("systemctl", "stop", "podstead")
}

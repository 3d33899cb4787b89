package e2e

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/podstead/podstead/test/testbed"
)

// The unit under a real systemd: containers keep their processes whatever happens to the
// daemon, with the system's runtime and with podstead's own.
func TestSystemd(t *testing.T) {
	t.Parallel()
	for _, private := range []bool{false, true} {
		name := "system runtime"
		if private {
			name = "private runtime"
		}
		t.Run(name, func(t *testing.T) {
			s := boot(t, private, map[string]string{
				"etc/podstead/config.yaml":         "apiVersion: podstead.io/v1alpha1\nkind: PodsteadConfiguration\nnodeLabels: {place: file}\n",
				"etc/podstead/config.d/10-ds.conf": "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: 12\n",
			})
			n := s.node()
			p := n.awaitRunning("p")
			if out := s.try("podstead", "get", "nodes", "-o", "json"); !strings.Contains(out, `"place": "file"`) || !strings.Contains(out, `"pods": "12"`) {
				t.Errorf("the files in /etc/podstead have no effect: %s", out)
			}
			daemon := s.mainPid()
			// With the private runtime there is a name server, which outlives the service too.
			nameservers := s.nameservers()
			if count := len(strings.Fields(nameservers)); private && count != 1 || !private && count != 0 {
				t.Errorf("processes of the name server: %q", nameservers)
			}
			for _, step := range []struct {
				name string
				do   func()
			}{
				{"systemctl restart", func() { s.run("systemctl", "restart", "podstead") }},
				{"kill -9", func() { s.run("sh", "-c", "kill -9 "+daemon) }},
				{"watchdog", func() { s.run("sh", "-c", "kill -STOP "+daemon) }}, // after a minute
			} {
				step.do()
				var now string
				n.await("another daemon is active after "+step.name, func() error {
					now = s.mainPid()
					if state := s.try("systemctl", "is-active", "podstead"); state != "active" || now == daemon || now == "0" {
						return fmt.Errorf("podstead is %s as %s, was %s", state, now, daemon)
					}
					return nil
				})
				daemon = now
				// The daemon is ready after the restart: it has listed the running pods.
				n.await("the daemon reports the pod", func() error {
					if out := s.try("podstead", "get", "pods"); !strings.Contains(out, "Running") {
						return errors.New(out)
					}
					return nil
				})
				n.mustStillRun("p", p)
			}
			s.run("sh", "-c", "rm /etc/pods/p.yaml")
			n.awaitGone("p")
			s.run("systemctl", "stop", "podstead")
			if now := s.nameservers(); now != nameservers {
				t.Errorf("the name server is process %q after the service was stopped, was %q", now, nameservers)
			}
		})
	}
}

// machine is a container with systemd as process 1.
type machine struct {
	t              *testing.T
	hostname, root string
	// pid is the host's ID of its process 1, 0 while it is off.
	pid    int
	nspawn *exec.Cmd
	// options are additional options of systemd-nspawn.
	options []string
	// number is that of its network, and registry the address of the tests' registry there.
	// Those with a network from the test itself have none.
	number   int
	registry string
}

// nameservers returns the processes of the name server of pods.
func (s *machine) nameservers() string {
	return s.try("sh", "-c", `for f in /proc/[0-9]*/cmdline; do tr '\000' ' ' <$f 2>/dev/null | grep -q '^podstead nameserver --directory' && echo $f; done`)
}

// boot boots the root directory of test/setup.sh with the product, the unit and one manifest,
// and waits until the unit is active. more replaces or adds files.
func boot(t *testing.T, private bool, more ...map[string]string) *machine {
	t.Helper()
	s := unpackMachine(t)
	unit, err := os.ReadFile(filepath.Join(testbed.SourceRoot(), "examples", "podstead.service"))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{
		"etc/systemd/system/podstead.service":        string(unit),
		"etc/containerd/certs.d/_default/hosts.toml": testbed.HostsTOML(s.registry),
		"etc/containerd/config.toml":                 testbed.SystemContainerd16,
		"etc/cni/net.d/10-bed.conflist":              testbed.SystemCNI,
		"etc/pods/p.yaml":                            strings.Replace(sleepPod("p", "one"), "spec:\n", "spec:\n  hostNetwork: true\n", 1),
	}
	if private {
		files["var/lib/podstead/containerd/certs.d/_default/hosts.toml"] = testbed.HostsTOML(s.registry)
		delete(files, "etc/containerd/config.toml")
		delete(files, "etc/cni/net.d/10-bed.conflist")
	}
	for _, m := range more {
		maps.Copy(files, m)
	}
	s.writeFiles(files)
	copyFile(t, testbed.Product(), filepath.Join(s.root, "usr/local/bin/podstead"))
	if private {
		// Otherwise the daemon waits for it, as it was installed a moment ago.
		if err := errors.Join(os.Remove(filepath.Join(s.root, unitWants, "containerd.service")), os.Symlink("/dev/null", filepath.Join(s.root, "etc/systemd/system/containerd.service"))); err != nil {
			t.Fatal(err)
		}
	}
	s.enable("podstead.service")

	t.Cleanup(s.cutPower)
	s.powerOn()
	return s
}

// unitWants is the directory of the units that start at boot.
const unitWants = "etc/systemd/system/multi-user.target.wants"

// unpackMachine returns a machine that is off, with the root directory of test/setup.sh. It has a
// network of its own: firewall rules, bridges and ports of podstead exist once in a network.
func unpackMachine(t *testing.T) *machine {
	t.Helper()
	s := unpackMachineNamed(t, "sd")
	s.number = firstMachine + int(lastMachine.Add(1))
	network := fmt.Sprint("machine-", s.number)
	var err error
	if s.registry, err = registry.ServeOn(connectMachine(t, network, s.number)); err != nil {
		t.Fatal(err)
	}
	s.options = []string{"--network-namespace-path=/run/netns/" + network}
	return s
}

// firstMachine is greater than the numbers of tests that connect their machines themselves.
const firstMachine = 10

// lastMachine counts the machines of unpackMachine.
var lastMachine atomic.Int32

// unpackMachineNamed returns it without a network. Its disk is its own, since that of the host may be
// too full for pods.
func unpackMachineNamed(t *testing.T, hostname string) *machine {
	t.Helper()
	s := &machine{t: t, hostname: hostname, root: filepath.Join(testbed.Dir(), nodeName()+"-systemd")}
	mountDisk(t, s.root, 20<<30)
	tarball := filepath.Join(testbed.Cache(), "systemd-root-1.tar")
	if out, err := exec.Command("tar", "-C", s.root, "-xf", tarball).CombinedOutput(); err != nil {
		t.Fatalf("cannot unpack %s (run: make setup): %v\n%s", tarball, err, out)
	}
	s.writeFiles(map[string]string{
		"etc/hostname": hostname + "\n",
		// nspawn mounts the cgroup controllers and /proc/sys read-only, unlike a real machine.
		"etc/systemd/system/writable.service": `[Unit]
Before=containerd.service podstead.service
[Service]
Type=oneshot
ExecStart=sh -c 'for m in /proc/sys /sys/fs/cgroup $(ls -d /sys/fs/cgroup/*/ 2>/dev/null); do mount -o remount,bind,rw $$m || true; done'
[Install]
WantedBy=multi-user.target
`,
	})
	s.enable("writable.service")
	return s
}

// writeFiles writes files into the root directory of a machine that is off.
func (s *machine) writeFiles(files map[string]string) {
	s.t.Helper()
	for name, content := range files {
		path := filepath.Join(s.root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
			s.t.Fatal(err)
		}
	}
}

// enable makes units start at boot.
func (s *machine) enable(units ...string) {
	s.t.Helper()
	for _, u := range units {
		if err := os.Symlink("/etc/systemd/system/"+u, filepath.Join(s.root, unitWants, u)); err != nil {
			s.t.Fatal(err)
		}
	}
}

// powerOn boots the machine, also after awaitShutdown, and waits until the unit is active.
func (s *machine) powerOn() {
	s.t.Helper()
	s.startInit()
	await(s.t, "podstead is active", func() error {
		if state := s.try("systemctl", "is-active", "podstead"); state != "active" {
			return errors.New(state)
		}
		return nil
	})
}

// startInit starts process 1 of the machine.
func (s *machine) startInit() {
	s.t.Helper()
	console, err := os.OpenFile(s.root+".console", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer console.Close()
	s.nspawn, err = testbed.CgroupCommand(filepath.Base(s.root), "systemd-nspawn", "-D", s.root, "--hostname="+s.hostname, "--register=no", "--keep-unit", "--capability=all",
		"--system-call-filter=@keyring bpf", "-b") // a runtime needs it and nspawn forbids it
	if err != nil {
		s.t.Fatal(err)
	}
	s.nspawn.Args = append(s.nspawn.Args, s.options...)
	s.nspawn.Stdout, s.nspawn.Stderr = console, console
	s.nspawn.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := s.nspawn.Start(); err != nil {
		s.t.Fatal(err)
	}
	await(s.t, "process 1 of the machine exists", func() error {
		var err error
		s.pid, err = childInit(s.nspawn.Process.Pid)
		return err
	})
}

// cutPower kills the machine at any point.
func (s *machine) cutPower() {
	if s.t.Failed() && s.pid != 0 {
		s.t.Logf("journal of podstead:\n%s", s.try("journalctl", "-u", "podstead", "-n", "60", "--no-pager"))
		s.t.Logf("console:\n%s", lastLines(s.root+".console", 20))
	}
	if s.pid != 0 {
		_ = syscall.Kill(s.pid, syscall.SIGKILL) // kills everything in its PID namespace
	}
	if s.nspawn != nil && s.nspawn.ProcessState == nil {
		_ = s.nspawn.Process.Kill()
		_ = s.nspawn.Wait()
	}
}

// awaitShutdown waits until the machine is off.
func (s *machine) awaitShutdown() {
	s.t.Helper()
	const limit = 8 * time.Minute
	down := make(chan error, 1)
	go func() { down <- s.nspawn.Wait() }()
	select {
	case <-down: // a reboot has its own exit status
		s.pid = 0
	case <-time.After(limit):
		s.t.Fatalf("the machine did not shut down within %v", limit)
	}
}

// node returns a node for the machine's runtime as seen from outside.
func (s *machine) node() *node {
	s.t.Helper()
	b, err := testbed.NewNode("sd", "")
	if err != nil {
		s.t.Fatal(err)
	}
	var socket string
	await(s.t, "the runtime's socket exists", func() error {
		for _, at := range []string{"run/containerd/containerd.sock", "run/podstead/" + privateSocket} {
			socket = filepath.Join(fmt.Sprintf("/proc/%d/root", s.pid), at)
			if _, err := os.Stat(socket); err == nil {
				return nil
			}
		}
		return errors.New("no socket yet")
	})
	cri, err := testbed.DialCRI(socket)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = cri.Close() })
	return &node{Node: b, t: s.t, rt: &testbed.Runtime{CRI: cri}}
}

// try runs a command in the machine and returns its output, whatever its exit code.
func (s *machine) try(command ...string) string {
	args := append([]string{"-t", fmt.Sprint(s.pid), "-a", "--"}, command...)
	out, _ := exec.Command("nsenter", args...).CombinedOutput()
	return strings.TrimSpace(string(out))
}

// run runs a command in the machine and fails the test unless it succeeds.
func (s *machine) run(command ...string) {
	s.t.Helper()
	args := append([]string{"-t", fmt.Sprint(s.pid), "-a", "--"}, command...)
	begin := time.Now()
	if out, err := exec.Command("nsenter", args...).CombinedOutput(); err != nil {
		s.t.Fatalf("%s after %v: %v\n%s", strings.Join(command, " "), time.Since(begin), err, out)
	}
}

// mainPid returns the process ID of the service podstead, "0" if it does not run.
func (s *machine) mainPid() string {
	return strings.TrimPrefix(s.try("systemctl", "show", "-p", "MainPID", "podstead"), "MainPID=")
}

// childInit returns the child of a process that is process 1 of a PID namespace.
func childInit(parent int) (int, error) {
	statuses, _ := filepath.Glob("/proc/[0-9]*/status")
	for _, f := range statuses {
		data, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		var pid int
		var child, first bool
		for line := range strings.Lines(string(data)) {
			fields := strings.Fields(line)
			switch {
			case len(fields) < 2:
			case fields[0] == "Pid:":
				_, _ = fmt.Sscan(fields[1], &pid)
			case fields[0] == "PPid:":
				child = fields[1] == fmt.Sprint(parent)
			case fields[0] == "NSpid:":
				first = len(fields) > 2 && fields[len(fields)-1] == "1"
			}
		}
		if child && first {
			return pid, nil
		}
	}
	return 0, fmt.Errorf("process %d has no such child", parent)
}

// copyFile copies a file, which everybody may then execute.
func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}

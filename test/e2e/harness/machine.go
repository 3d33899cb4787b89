package harness

import (
	"errors"
	"fmt"
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

// SystemdDriver makes runc use the systemd cgroup driver.
const SystemdDriver = testbed.SystemContainerd16 + `  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = true
`

// MachineAddress returns the address of a machine in its network namespace.
func MachineAddress(number int) string { return fmt.Sprintf("198.18.%d.2", number) }

// ConnectMachine creates a network namespace that is connected to the test's, which is its
// gateway, and returns the gateway's address.
func ConnectMachine(t *testing.T, name string, number int) string {
	t.Helper()
	gateway, link := fmt.Sprintf("198.18.%d.1", number), fmt.Sprintf("machine%d", number)
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{
		"ip netns add " + name,
		"ip link add " + link + " type veth peer name eth0 netns " + name,
		"ip address add " + gateway + "/28 dev " + link,
		"ip link set " + link + " up",
		"ip -n " + name + " link set lo up",
		"ip -n " + name + " address add " + MachineAddress(number) + "/28 dev eth0",
		"ip -n " + name + " link set eth0 up",
		"ip -n " + name + " route add default via " + gateway,
	} {
		args := strings.Fields(command)
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", command, err, out)
		}
	}
	t.Cleanup(func() { _ = exec.Command("ip", "netns", "delete", name).Run() })
	return gateway
}

// Machine is a container with systemd as process 1.
type Machine struct {
	T              *testing.T
	Hostname, Root string
	// pid is the host's ID of its process 1, 0 while it is off.
	PID    int
	nspawn *exec.Cmd
	// options are additional options of systemd-nspawn.
	Options []string
	// number is that of its network, and registry the address of the tests' registry there.
	// Those with a network from the test itself have none.
	Number   int
	Registry string
}

// UnitWants is the directory of the units that start at boot.
const UnitWants = "etc/systemd/system/multi-user.target.wants"

// UnpackMachine returns a machine that is off, with the root directory of test/setup.sh. It has a
// network of its own: firewall rules, bridges and ports of podstead exist once in a network.
func UnpackMachine(t *testing.T) *Machine {
	t.Helper()
	s := UnpackMachineNamed(t, "sd")
	s.Number = firstMachine + int(lastMachine.Add(1))
	network := fmt.Sprint("machine-", s.Number)
	var err error
	if s.Registry, err = Registry.ServeOn(ConnectMachine(t, network, s.Number)); err != nil {
		t.Fatal(err)
	}
	s.Options = []string{"--network-namespace-path=/run/netns/" + network}
	return s
}

// firstMachine is greater than the numbers of tests that connect their machines themselves.
const firstMachine = 10

// lastMachine counts the machines of UnpackMachine.
var lastMachine atomic.Int32

// UnpackMachineNamed returns it without a network. Its disk is its own, since that of the host may be
// too full for pods.
func UnpackMachineNamed(t *testing.T, hostname string) *Machine {
	t.Helper()
	s := &Machine{T: t, Hostname: hostname, Root: filepath.Join(testbed.Dir(), nodeName()+"-systemd")}
	MountDisk(t, s.Root, 20<<30)
	tarball := filepath.Join(testbed.Cache(), "systemd-root-1.tar")
	if out, err := exec.Command("tar", "-C", s.Root, "-xf", tarball).CombinedOutput(); err != nil {
		t.Fatalf("cannot unpack %s (run: make setup): %v\n%s", tarball, err, out)
	}
	s.WriteFiles(map[string]string{
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
	s.Enable("writable.service")
	return s
}

// WriteFiles writes files into the root directory of a machine that is off.
func (s *Machine) WriteFiles(files map[string]string) {
	s.T.Helper()
	for name, content := range files {
		path := filepath.Join(s.Root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
			os.WriteFile(path, []byte(content), 0o644)); err != nil {
			s.T.Fatal(err)
		}
	}
}

// Enable makes units start at boot.
func (s *Machine) Enable(units ...string) {
	s.T.Helper()
	for _, u := range units {
		if err := os.Symlink("/etc/systemd/system/"+u, filepath.Join(s.Root, UnitWants, u)); err != nil {
			s.T.Fatal(err)
		}
	}
}

// PowerOn boots the machine, also after AwaitShutdown, and waits until the unit is active.
func (s *Machine) PowerOn() {
	s.T.Helper()
	s.StartInit()
	Await(s.T, "podstead is active", func() error {
		if state := s.Try("systemctl", "is-active", "podstead"); state != "active" {
			return errors.New(state)
		}
		return nil
	})
}

// StartInit starts process 1 of the machine.
func (s *Machine) StartInit() {
	s.T.Helper()
	console, err := os.OpenFile(s.Root+".console", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.T.Fatal(err)
	}
	defer console.Close()
	s.nspawn, err = testbed.CgroupCommand(filepath.Base(s.Root), "systemd-nspawn", "-D", s.Root, "--hostname="+s.Hostname,
		"--register=no", "--keep-unit", "--capability=all",
		"--system-call-filter=@keyring bpf", "-b") // a runtime needs it and nspawn forbids it
	if err != nil {
		s.T.Fatal(err)
	}
	s.nspawn.Args = append(s.nspawn.Args, s.Options...)
	s.nspawn.Stdout, s.nspawn.Stderr = console, console
	s.nspawn.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := s.nspawn.Start(); err != nil {
		s.T.Fatal(err)
	}
	Await(s.T, "process 1 of the machine exists", func() error {
		var err error
		s.PID, err = childInit(s.nspawn.Process.Pid)
		return err
	})
}

// CutPower kills the machine at any point.
func (s *Machine) CutPower() {
	if s.T.Failed() && s.PID != 0 {
		s.T.Logf("journal of podstead:\n%s", s.Try("journalctl", "-u", "podstead", "-n", "60", "--no-pager"))
		s.T.Logf("console:\n%s", LastLines(s.Root+".console", 20))
	}
	if s.PID != 0 {
		_ = syscall.Kill(s.PID, syscall.SIGKILL) // kills everything in its PID namespace
	}
	if s.nspawn != nil && s.nspawn.ProcessState == nil {
		_ = s.nspawn.Process.Kill()
		_ = s.nspawn.Wait()
	}
}

// AwaitShutdown waits until the machine is off.
func (s *Machine) AwaitShutdown() {
	s.T.Helper()
	const limit = 8 * time.Minute
	down := make(chan error, 1)
	go func() { down <- s.nspawn.Wait() }()
	select {
	case <-down: // a reboot has its own exit status
		s.PID = 0
	case <-time.After(limit):
		s.T.Fatalf("the machine did not shut down within %v", limit)
	}
}

// Node returns a node for the machine's runtime as seen from outside.
func (s *Machine) Node() *Node {
	s.T.Helper()
	b, err := testbed.NewNode("sd", "")
	if err != nil {
		s.T.Fatal(err)
	}
	var socket string
	Await(s.T, "the runtime's socket exists", func() error {
		for _, at := range []string{"run/containerd/containerd.sock", "run/podstead/" + privateSocket} {
			socket = filepath.Join(fmt.Sprintf("/proc/%d/root", s.PID), at)
			if _, err := os.Stat(socket); err == nil {
				return nil
			}
		}
		return errors.New("no socket yet")
	})
	cri, err := testbed.DialCRI(socket)
	if err != nil {
		s.T.Fatal(err)
	}
	s.T.Cleanup(func() { _ = cri.Close() })
	return &Node{Node: b, T: s.T, Runtime: &testbed.Runtime{CRI: cri}}
}

// Try runs a command in the machine and returns its output, whatever its exit code.
func (s *Machine) Try(command ...string) string {
	args := append([]string{"-t", fmt.Sprint(s.PID), "-a", "--"}, command...)
	out, _ := exec.Command("nsenter", args...).CombinedOutput()
	return strings.TrimSpace(string(out))
}

// Run runs a command in the machine and fails the test unless it succeeds.
func (s *Machine) Run(command ...string) {
	s.T.Helper()
	args := append([]string{"-t", fmt.Sprint(s.PID), "-a", "--"}, command...)
	begin := time.Now()
	if out, err := exec.Command("nsenter", args...).CombinedOutput(); err != nil {
		s.T.Fatalf("%s after %v: %v\n%s", strings.Join(command, " "), time.Since(begin), err, out)
	}
}

// MainPid returns the process ID of the service podstead, "0" if it does not run.
func (s *Machine) MainPid() string {
	return strings.TrimPrefix(s.Try("systemctl", "show", "-p", "MainPID", "podstead"), "MainPID=")
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

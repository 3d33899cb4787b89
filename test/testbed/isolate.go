package testbed

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// The stages of a program that isolates itself, told apart by stageVar.
const (
	stageVar  = "PODSTEAD_TESTBED_STAGE"
	dirVar    = "PODSTEAD_TESTBED_DIR"
	stageInit = "init" // process 1 of the namespaces: sets them up and reaps
	stageRun  = "run"  // the program proper
)

// Isolate runs the rest of the program in fresh process, mount, network, IPC and
// host name namespaces, so that neither a runtime of the host's is found by
// accident nor anything of ours outlives the program. It starts the program again
// inside and returns there; the outer process never returns from it but exits
// with the inner one's status.
//
// Outside, prepare runs first, where network and caches are still the host's:
// that is the place to build binaries. What it exports with os.Setenv is seen inside.
func Isolate(prepare func() error) {
	var status int
	var err error
	switch os.Getenv(stageVar) {
	case stageRun:
		return
	case stageInit:
		status, err = runInit()
	default:
		status, err = runOuter(prepare)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "test bed:", err)
		status = 1
	}
	os.Exit(status)
}

// Dir is the bed's directory on disk. It is removed when the program has ended.
func Dir() string { return os.Getenv(dirVar) }

func runOuter(prepare func() error) (int, error) {
	if os.Geteuid() != 0 {
		return 0, errors.New("needs root: it starts a container runtime (run it with sudo)")
	}
	sweep()
	dir := filepath.Join(base, dirPrefix+strconv.Itoa(os.Getpid()))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return 0, err
	}
	defer removeBed(dir)
	if err := os.Setenv(dirVar, dir); err != nil {
		return 0, err
	}
	if err := prepare(); err != nil {
		return 0, err
	}

	// The kernel ends the inner process 1, and with it everything in the
	// namespaces, when the thread that started it ends.
	runtime.LockOSThread()
	inner := again(stageInit)
	inner.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
		Pdeathsig:  syscall.SIGKILL,
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
	if err := inner.Start(); err != nil {
		return 0, fmt.Errorf("cannot make namespaces: %w", err)
	}
	go func() {
		for s := range signals {
			_ = inner.Process.Signal(s)
		}
	}()
	return exitStatus(inner.Wait())
}

// again is this program with its arguments, in another stage.
func again(stage string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), stageVar+"="+stage)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd
}

func exitStatus(err error) (int, error) {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0, nil
	case errors.As(err, &exit):
		if w, ok := exit.Sys().(syscall.WaitStatus); ok && w.Signaled() {
			return 128 + int(w.Signal()), nil
		}
		return exit.ExitCode(), nil
	}
	return 0, err
}

// runInit is process 1: it lays out the namespaces, runs the program proper, reaps
// everything that is orphaned to it, and returns the program's status.
func runInit() (int, error) {
	if err := layOut(); err != nil {
		return 0, err
	}
	// Not through exec.Cmd.Wait: one loop reaps all children.
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return 0, err
	}
	if err := os.Setenv(stageVar, stageRun); err != nil {
		return 0, err
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
	program, err := os.StartProcess(exe, os.Args, &os.ProcAttr{Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
	if err != nil {
		return 0, err
	}
	go func() {
		for s := range signals {
			_ = program.Signal(s)
		}
	}()
	for {
		var w syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &w, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 0, err
		case pid == program.Pid && w.Signaled():
			return 128 + int(w.Signal()), nil
		case pid == program.Pid && w.Exited():
			return w.ExitStatus(), nil
		}
	}
}

// layOut makes the mount and network namespace usable and free of the host's
// runtimes: loopback is up, /proc shows our processes, and the directories in which
// runtimes, CNI and logs live by default are empty ones of our own.
func layOut() error {
	resolv, _ := os.ReadFile("/etc/resolv.conf")
	// Nothing mounted here may reach the host, while mounts made by the runtime
	// must propagate within, as on a host whose root is shared.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("cannot make mounts private: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("cannot make mounts shared: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("cannot mount /proc: %w", err)
	}
	for _, dir := range []string{"/run", "/var/log", "/var/lib/cni", "/etc/cni"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := unix.Mount("bed", dir, "tmpfs", 0, "mode=0755"); err != nil {
			return fmt.Errorf("cannot mount %s: %w", dir, err)
		}
	}
	if err := os.MkdirAll("/run/lock", 0o1777); err != nil {
		return err
	}
	if err := keepResolvConf(resolv); err != nil {
		return err
	}
	if out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		return fmt.Errorf("cannot bring loopback up: %v: %s", err, out)
	}
	return nil
}

// keepResolvConf restores the file that /etc/resolv.conf points to, where that
// is below the /run which was just covered.
func keepResolvConf(content []byte) error {
	target, err := os.Readlink("/etc/resolv.conf")
	if err != nil {
		return nil
	}
	if !filepath.IsAbs(target) {
		target = filepath.Join("/etc", target)
	}
	if !strings.HasPrefix(target, "/run/") {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	return os.WriteFile(target, content, 0o644)
}

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

// The stages of a program that isolates itself. stageVar names the current one.
const (
	stageVar  = "PODSTEAD_TESTBED_STAGE"
	dirVar    = "PODSTEAD_TESTBED_DIR"
	stageInit = "init" // process 1 of the namespaces: sets them up and reaps
	stageRun  = "run"  // the program itself
)

// Isolate runs the rest of the program in new process, mount, network, IPC and UTS namespaces.
// The program therefore cannot use a runtime of the host by accident, and nothing that it
// starts outlives it. Isolate starts the program again inside the namespaces and returns only
// there. The outer process exits with the status of the inner one.
//
// prepare runs first and outside, where the host's network and caches are available: binaries
// are built there. The program inside inherits variables that prepare sets with os.Setenv.
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
		fmt.Fprintln(os.Stderr, "testbed:", err)
		status = 1
	}
	os.Exit(status)
}

// Dir returns the test bed's directory on disk. It is removed when the program ends.
func Dir() string { return os.Getenv(dirVar) }

func runOuter(prepare func() error) (int, error) {
	if os.Geteuid() != 0 {
		return 0, errors.New("needs root: it starts a container runtime (run it with sudo)")
	}
	removeStale()
	dir := filepath.Join(baseDir, dirPrefix+strconv.Itoa(os.Getpid()))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return 0, err
	}
	defer removeTestbed(dir)
	if err := os.Setenv(dirVar, dir); err != nil {
		return 0, err
	}
	if err := prepare(); err != nil {
		return 0, err
	}

	// The kernel kills the inner process 1, and with it everything in the namespaces, when the
	// thread that started it ends.
	runtime.LockOSThread()
	inner := reexec(stageInit)
	inner.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
		Pdeathsig:  syscall.SIGKILL,
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
	if err := inner.Start(); err != nil {
		return 0, fmt.Errorf("cannot create namespaces: %w", err)
	}
	go func() {
		for s := range signals {
			_ = inner.Process.Signal(s)
		}
	}()
	return exitStatus(inner.Wait())
}

// reexec returns a command that runs this program with its arguments in another stage.
func reexec(stage string) *exec.Cmd {
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

// runInit is process 1: it sets up the namespaces, runs the program, reaps all orphaned
// processes, and returns the program's status.
func runInit() (int, error) {
	if err := setUpNamespaces(); err != nil {
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

// setUpNamespaces prepares the mount and network namespaces: loopback is up, /proc shows the
// processes of the namespace, and the default directories of runtimes, CNI and logs are empty
// and private, so that no runtime of the host is visible.
func setUpNamespaces() error {
	resolv, _ := os.ReadFile("/etc/resolv.conf")
	// Mounts made here must not reach the host, while mounts that the runtime makes must
	// propagate within the namespace, as on a host whose root is shared.
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
		if err := unix.Mount("testbed", dir, "tmpfs", 0, "mode=0755"); err != nil {
			return fmt.Errorf("cannot mount %s: %w", dir, err)
		}
	}
	if err := os.MkdirAll("/run/lock", 0o1777); err != nil {
		return err
	}
	if err := restoreResolvConf(resolv); err != nil {
		return err
	}
	if out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		return fmt.Errorf("cannot bring loopback up: %v: %s", err, out)
	}
	return nil
}

// restoreResolvConf restores the file that /etc/resolv.conf points to if it is below /run,
// which is now covered by a tmpfs.
func restoreResolvConf(content []byte) error {
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

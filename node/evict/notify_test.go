package evict

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/podstead/podstead/node/cgroup"
)

// makeCgroup returns a new cgroup in a hierarchy of the host; the test is
// skipped where there is none, or this process may not create one.
func makeCgroup(t *testing.T, file string, hierarchies ...string) string {
	t.Helper()
	for _, at := range hierarchies {
		dir := filepath.Join(at, fmt.Sprintf("%s-%d", t.Name(), os.Getpid()))
		if err := os.Mkdir(dir, 0o755); err != nil {
			continue
		}
		t.Cleanup(func() {
			// A killed process may not have left the cgroup yet.
			for end := time.Now().Add(time.Minute); os.Remove(dir) != nil; time.Sleep(10 * time.Millisecond) {
				if time.Now().After(end) {
					t.Errorf("%s is not removed", dir)
					return
				}
			}
		})
		if _, err := os.Stat(filepath.Join(dir, file)); err == nil {
			return dir
		}
	}
	t.Skipf("no cgroup with %s can be created here", file)
	return ""
}

// in starts a shell in cgroups.
func in(t *testing.T, script string, directories ...string) {
	t.Helper()
	enter := ""
	for _, dir := range directories {
		enter += "echo $$ > " + dir + "/cgroup.procs && "
	}
	c := exec.Command("sh", "-c", enter+script)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL); _ = c.Wait() })
}

func awaitAlarm(t *testing.T, n *Notifier) {
	t.Helper()
	select {
	case <-n.C():
	case <-time.After(2 * time.Minute):
		t.Error("the kernel did not notify")
	}
}

// The kernel notifies when the usage of a v1 cgroup rises by this much.
func TestKernelNotifiesOfUsage(t *testing.T) {
	dir := makeCgroup(t, "cgroup.event_control", "/sys/fs/cgroup/memory")
	n := NewNotifier()
	defer n.Close()
	if err := n.Arm(cgroup.MemoryCgroup{Directory: dir}, 8<<20); err != nil {
		t.Fatal(err)
	}
	select {
	case <-n.C():
		t.Error("notified without a reason")
	default:
	}
	in(t, "(head -c 20000000 /dev/zero; sleep 60) | exec tail -c 20000000", dir)
	awaitAlarm(t, n)
}

// The kernel accepts the pressure trigger, with CAP_SYS_RESOURCE or without,
// and the watch ends with the context.
func TestKernelAcceptsTheTrigger(t *testing.T) {
	const file = "/proc/pressure/memory"
	if f, err := os.OpenFile(file, os.O_RDWR, 0); err != nil {
		t.Skipf("pressure cannot be monitored here: %v", err)
	} else if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := NewNotifier().WatchPressure(ctx, file); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it ends with %v", err)
	}
}

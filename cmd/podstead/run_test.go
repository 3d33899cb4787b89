package main

import (
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// An ordinary user learns what is wrong, not which directory is the first that they may not create.
func TestRunAsOrdinaryUser(t *testing.T) {
	if os.Geteuid() == 0 {
		// The user of this thread alone, on which the command checks it.
		runtime.LockOSThread()
		const unchanged = ^uintptr(0)
		if _, _, err := syscall.RawSyscall(syscall.SYS_SETRESUID, unchanged, 65534, unchanged); err != 0 {
			t.Fatal(err)
		}
		defer func() {
			_, _, _ = syscall.RawSyscall(syscall.SYS_SETRESUID, unchanged, 0, unchanged)
			runtime.UnlockOSThread()
		}()
	}
	_, err := execute("podstead", "run", "--config", "", "--root-dir", "/proc/none", "--pod-manifest-path", "/pods")
	if err == nil || !strings.HasPrefix(err.Error(), "podstead run must run as root, not as user ") {
		t.Errorf("got %v", err)
	}
}

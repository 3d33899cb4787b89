package daemon

import (
	"bytes"
	"io"
	"log/slog"
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
	cmd := runCommand()
	cmd.SetArgs([]string{"--config", "", "--root-dir", "/proc/none", "--pod-manifest-path", "/pods"})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetErr(io.Discard)
	if err := cmd.Execute(); err == nil || !strings.HasPrefix(err.Error(), "podstead run must run as root, not as user ") {
		t.Errorf("got %v", err)
	}
}

// The log names the default configuration file only if it would be read.
func TestLogOfConfigurationFiles(t *testing.T) {
	for want, c := range map[string]struct {
		files    []string
		explicit bool
	}{
		`msg="Configuration loaded" files=[/a.yaml]`:                                           {files: []string{"/a.yaml"}, explicit: true},
		`msg="No configuration file, using flags and defaults" file=/etc/podstead/config.yaml`: {},
		`msg="No configuration file, using flags and defaults"`:                                {explicit: true},
	} {
		var log bytes.Buffer
		logConfiguration(slog.New(slog.NewTextHandler(&log, nil)), c.files, c.explicit)
		if got := strings.TrimSpace(log.String()); !strings.HasSuffix(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

package harness

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Uptime returns the time since boot, as recorded.
func Uptime(t *testing.T) float64 {
	t.Helper()
	text, err := os.ReadFile("/proc/uptime")
	if err != nil {
		t.Fatal(err)
	}
	at, err := strconv.ParseFloat(strings.Fields(string(text))[0], 64)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// PeakMemory returns the most resident memory that a process has had, in bytes.
func PeakMemory(t *testing.T, pid int) (bytes int64) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			if _, err := fmt.Sscanf(rest, "%d kB", &bytes); err != nil {
				t.Fatal(err)
			}
		}
	}
	return bytes << 10
}

// ProcessExists reports whether a process exists and is not a zombie.
func ProcessExists(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}

// KillProcess kills a process and waits until it has ended.
func KillProcess(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	Await(t, fmt.Sprintf("process %d has ended", pid), func() error {
		if ProcessExists(pid) {
			return errors.New("it still runs")
		}
		return nil
	})
}

// BootTime returns when /proc/uptime was zero.
func BootTime(t *testing.T) time.Time {
	t.Helper()
	for {
		before := time.Now()
		up := Uptime(t)
		if time.Since(before) < 10*time.Millisecond {
			return before.Add(-time.Duration(up * float64(time.Second)))
		}
	}
}

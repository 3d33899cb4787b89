package evict

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podstead/podstead/node/cgroup"
)

// fakeCgroup is a directory with the files of a version 1 cgroup. The test
// reads from it what the kernel is asked for, and acts in the kernel's place.
type fakeCgroup struct {
	t   *testing.T
	dir string
}

func newFakeCgroup(t *testing.T, usage int) fakeCgroup {
	c := fakeCgroup{t, t.TempDir()}
	c.uses(usage)
	return c
}

func (c fakeCgroup) uses(bytes int) {
	c.t.Helper()
	if err := os.WriteFile(filepath.Join(c.dir, "memory.usage_in_bytes"), fmt.Appendln(nil, bytes), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// asked returns the last request to the kernel: to write to an eventfd when the
// value of a file crosses a number.
func (c fakeCgroup) asked() (event int, at int64) {
	c.t.Helper()
	text, err := os.ReadFile(filepath.Join(c.dir, "cgroup.event_control"))
	if err != nil {
		c.t.Fatal(err)
	}
	var watched int
	if n, err := fmt.Sscanf(string(text), "%d %d %d", &event, &watched, &at); n != 3 || err != nil {
		c.t.Fatalf("the kernel got %q", text)
	}
	return event, at
}

// fireEvents simulates the kernel.
func (c fakeCgroup) fireEvents() {
	c.t.Helper()
	event, _ := c.asked()
	if _, err := unix.Write(event, binary.NativeEndian.AppendUint64(nil, 1)); err != nil {
		c.t.Fatal(err)
	}
}

func TestArmAsksForTheMarginAboveUsage(t *testing.T) {
	c := newFakeCgroup(t, 100<<20)
	n := NewNotifier()
	cgroup := cgroup.MemoryCgroup{Directory: c.dir}
	arm := func(margin, want int64) {
		t.Helper()
		if err := n.Arm(cgroup, margin); err != nil {
			t.Fatal(err)
		}
		if _, at := c.asked(); at != want {
			t.Errorf("the kernel notifies at %d MiB, want %d", at>>20, want>>20)
		}
	}
	arm(64<<20, 164<<20)
	for range 3 {
		c.fireEvents()
		awaitAlarm(t, n)
	}
	// A small change has no effect, a large one has, and then the new event
	// counts.
	c.uses(101 << 20)
	arm(64<<20, 164<<20)
	c.uses(110 << 20)
	arm(64<<20, 174<<20)
	c.fireEvents()
	awaitAlarm(t, n)
	n.Close()
	if err := n.Arm(cgroup, 64<<20); !errors.Is(err, os.ErrClosed) {
		t.Errorf("after its end: %v", err)
	}
	select {
	case <-n.C():
		t.Error("notified without an event")
	default:
	}
}

func TestArmReportsErrors(t *testing.T) {
	n := NewNotifier()
	defer n.Close()
	for name, c := range map[string]cgroup.MemoryCgroup{"version 2": {Directory: t.TempDir(), V2: true}, "none": {}} {
		if err := n.Arm(c, 1); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := n.Arm(cgroup.MemoryCgroup{Directory: t.TempDir()}, 1); err == nil {
		t.Error("a removed cgroup was armed")
	}
	c := newFakeCgroup(t, 1)
	if err := os.Mkdir(filepath.Join(c.dir, "cgroup.event_control"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := n.Arm(cgroup.MemoryCgroup{Directory: c.dir}, 1); err == nil ||
		!strings.Contains(err.Error(), "register for memory events") {
		t.Errorf("the kernel rejects: %v", err)
	}
}

// A kernel may reject windows that are no multiples of two seconds.
func TestTriggerIsTheShortestThatIsGranted(t *testing.T) {
	for _, c := range []struct{ refused, want string }{
		{"nothing", "some 100000 1000000\x00"},
		{" 1000000\x00", "some 100000 1000000\x00 some 200000 2000000\x00"},
	} {
		var asked []string
		err := trigger(func(text []byte) (int, error) {
			asked = append(asked, string(text))
			if strings.HasSuffix(string(text), c.refused) {
				return 0, unix.EINVAL
			}
			return len(text), nil
		})
		if got := strings.Join(asked, " "); err != nil || got != c.want {
			t.Errorf("asked for %q, %v; want %q", got, err, c.want)
		}
	}
	if err := trigger(func([]byte) (int, error) { return 0, unix.EOPNOTSUPP }); !errors.Is(err, unix.EOPNOTSUPP) {
		t.Errorf("a kernel that accepts none: %v", err)
	}
}

// Urgent data on a connection is reported like pressure: with POLLPRI.
func TestListenWakesUntilItsContextEnds(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	dialled, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer dialled.Close()
	accepted, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	kernel, file := descriptor(t, dialled), descriptor(t, accepted)

	n := NewNotifier()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.listen(ctx, int(file.Fd()), "memory.pressure") }()
	for range 2 {
		if err := unix.Sendto(int(kernel.Fd()), []byte{1}, unix.MSG_OOB, nil); err != nil {
			t.Fatal(err)
		}
		awaitAlarm(t, n)
		// Read the data, or it is reported again and again.
		if _, _, err := unix.Recvfrom(int(file.Fd()), make([]byte, 1), unix.MSG_OOB); err != nil &&
			!errors.Is(err, unix.EINVAL) {
			t.Fatal(err)
		}
	}
	cancel()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(3 * time.Minute):
		t.Error("it continues after its context has ended")
	}
}

func descriptor(t *testing.T, c net.Conn) *os.File {
	t.Helper()
	f, err := c.(*net.TCPConn).File()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// A file that accepts a trigger and never notifies.
func TestWatchPressureSetsTheTrigger(t *testing.T) {
	file := filepath.Join(t.TempDir(), "memory.pressure")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := NewNotifier().WatchPressure(ctx, file); !errors.Is(err, context.Canceled) {
		t.Errorf("it ends with %v", err)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if text, err := io.ReadAll(f); err != nil || string(text) != "some 100000 1000000\x00" {
		t.Errorf("the kernel got %q, %v", text, err)
	}
	if err := NewNotifier().WatchPressure(t.Context(), file+".none"); err == nil ||
		!strings.Contains(err.Error(), "failed to monitor") {
		t.Errorf("without the file: %v", err)
	}
}

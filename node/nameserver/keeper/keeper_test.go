package keeper

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/podstead/podstead/node/nameserver"
	"github.com/podstead/podstead/node/nameserver/zone"
)

// TestMain runs the name server if the keeper has started this program as one.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "nameserver" {
		if err := nameserver.New(nameserver.Directory(os.Args[2]),
			slog.New(slog.NewTextHandler(os.Stderr, nil))).Run(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) == 4 && os.Args[1] == endsOnce {
		if os.Remove(os.Args[3]) == nil {
			os.Exit(1)
		}
		_ = syscall.Exec("/proc/self/exe", []string{os.Args[0], "nameserver", os.Args[2]}, os.Environ())
	}
	os.Exit(m.Run())
}

// endsOnce is the argument of a name server that ends during its first start: of its directory, and a file that is
// there until then.
const endsOnce = "ends-once"

var loopback = netip.MustParseAddr("127.0.0.1")

// keeperHarness is a keeper whose process serves a free port of 127.0.0.1.
type keeperHarness struct {
	t       *testing.T
	cfg     Config
	mu      sync.Mutex
	changes []string
}

func newKeeperHarness(t *testing.T) *keeperHarness {
	t.Helper()
	// The path of a socket has at most 107 bytes.
	dir, err := os.MkdirTemp("", "keeper")
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := uint16(l.Addr().(*net.TCPAddr).Port)
	_ = l.Close()
	h := &keeperHarness{t: t}
	h.cfg = Config{
		Dir:      nameserver.Directory(filepath.Join(dir, "ns")),
		Settings: nameserver.Snapshot{Domain: "cluster.local", Listen: []netip.Addr{loopback}, Port: port},
		Log:      slog.New(slog.DiscardHandler),
		Changed: func(err error) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.changes = append(h.changes, fmt.Sprint(err))
		},
	}
	h.cfg.Command = []string{"keeper-test", "nameserver", string(h.cfg.Dir)}
	t.Cleanup(func() {
		k := New(h.cfg)
		if k.connect(context.Background()) == nil {
			_ = syscall.Kill(k.status.Pid, syscall.SIGKILL)
		}
		if t.Failed() {
			log, _ := os.ReadFile(h.cfg.Dir.Log())
			t.Logf("log of the process:\n%s", log)
		}
		_ = os.RemoveAll(dir)
	})
	return h
}

// start starts a keeper and returns it with a function that ends its Run.
func (h *keeperHarness) start() (*Keeper, func()) {
	h.t.Helper()
	k := New(h.cfg)
	if err := k.Start(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(h.t.Context())
	done := make(chan error, 1)
	go func() { done <- k.Run(ctx) }()
	return k, func() {
		cancel()
		if err := <-done; err != nil {
			h.t.Error(err)
		}
	}
}

func (h *keeperHarness) await(what string, check func() bool) {
	h.t.Helper()
	for end := time.Now().Add(time.Minute); !check(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			h.t.Fatalf("%s: not within a minute", what)
		}
	}
}

// resolverTimeout is how long a resolver waits until it repeats a query.
const resolverTimeout = 5 * time.Second

// lookup asks the process for the address of db.
func (h *keeperHarness) lookup() string {
	resolver := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", netip.AddrPortFrom(loopback, h.cfg.Settings.Port).String())
	}}
	addresses, err := resolver.LookupHost(h.t.Context(), "db.default.svc.cluster.local.")
	if err != nil {
		return "none"
	}
	return strings.Join(addresses, " ")
}

func zoneOf(ip string) zone.Zone {
	return zone.Zone{Names: map[string]zone.Records{
		"db.default.svc.cluster.local": {Addresses: []netip.Addr{netip.MustParseAddr(ip)}}}}
}

func TestProcessOutlivesTheKeeper(t *testing.T) {
	h := newKeeperHarness(t)
	k, stop := h.start()
	if !k.Listening(loopback) {
		t.Fatalf("it does not listen: %+v", k.status)
	}
	if err := k.Publish(zoneOf("10.0.0.2")); err != nil {
		t.Fatal(err)
	}
	h.await("the name is known", func() bool { return h.lookup() == "10.0.0.2" })
	first, _ := k.Status()
	stop()
	if h.lookup() != "10.0.0.2" {
		t.Error("the name is forgotten with the keeper")
	}
	k, stop = h.start()
	defer stop()
	if now, _ := k.Status(); now.Pid != first.Pid {
		t.Errorf("process %d was started in addition to %d", now.Pid, first.Pid)
	}
	if h.lookup() != "10.0.0.2" || len(k.Zone().Names) != 1 {
		t.Error("the next keeper has removed the names")
	}
	if err := syscall.Kill(first.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	h.await("it runs again", func() bool {
		now, runs := k.Status()
		return runs && now.Pid != first.Pid &&
			k.Listening(loopback)
	})
	if h.lookup() != "10.0.0.2" {
		t.Error("the names are lost with the process")
	}
}

// copyProgram returns another program that does the same: it has another file.
func copyProgram(t *testing.T) string {
	t.Helper()
	copied := filepath.Join(t.TempDir(), "copy")
	own, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	out, err := os.OpenFile(copied, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, own); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	return copied
}

// startOther starts the name server as a process of another program, and returns its pid.
func (h *keeperHarness) startOther() int {
	h.t.Helper()
	if err := New(h.cfg).Publish(zone.Zone{}); err != nil {
		h.t.Fatal(err)
	}
	cmd := exec.Command(copyProgram(h.t))
	cmd.Args = []string{"keeper-test", "nameserver", string(h.cfg.Dir)}
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { _ = cmd.Wait(); close(done) }()
	h.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-done
	})
	h.await("it runs", func() bool { return Runs(h.cfg.Dir) })
	return cmd.Process.Pid
}

// A process that ends while its program is replaced is started again at once: no pod can resolve a name until then.
func TestProcessThatEndsWhileItIsReplaced(t *testing.T) {
	h := newKeeperHarness(t)
	pid := h.startOther()
	broken := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(broken, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h.cfg.Command = []string{"keeper-test", endsOnce, string(h.cfg.Dir), broken}
	k, stop := h.start()
	defer stop()
	if now, _ := k.Status(); now.Pid == pid || !k.Listening(loopback) {
		t.Errorf("after the end of process %d: %+v", pid, now)
	}
	if err := k.Publish(zoneOf("10.0.0.2")); err != nil {
		t.Fatal(err)
	}
	h.await("the name is known", func() bool { return h.lookup() == "10.0.0.2" })
}

// Each query that pods send while the program is replaced has a response, without being repeated.
func TestReplacementLosesNoQuery(t *testing.T) {
	h := newKeeperHarness(t)
	pid := h.startOther()
	asker := New(h.cfg)
	if err := asker.Publish(zoneOf("10.0.0.2")); err != nil {
		t.Fatal(err)
	}
	h.await("the name is known", func() bool { return h.lookup() == "10.0.0.2" })
	ctx, cancel := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for ctx.Err() == nil {
				if begin := time.Now(); h.lookup() != "10.0.0.2" || time.Since(begin) >= resolverTimeout {
					t.Errorf("a query had no response after %s", time.Since(begin))
					return
				}
			}
		})
	}
	programs := []string{copyProgram(t), copyProgram(t)}
	for i := range 10 {
		h.await("it reports", func() bool { return asker.connect(t.Context()) == nil })
		program := programs[i%2]
		request := fmt.Sprintf(`{"exec": [%q, "keeper-test", "nameserver", %q]}`+"\n", program, h.cfg.Dir)
		if _, err := io.WriteString(asker.conn, request); err != nil {
			t.Fatal(err)
		}
		h.await("the program is replaced", func() bool {
			now, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
			return now == program
		})
	}
	asker.disconnect()
	cancel()
	clients.Wait()
}

// The process continues with another program, and nobody who asks meanwhile notices.
func TestProgramIsReplaced(t *testing.T) {
	h := newKeeperHarness(t)
	k, stop := h.start()
	if err := k.Publish(zoneOf("10.0.0.2")); err != nil {
		t.Fatal(err)
	}
	h.await("the name is known", func() bool { return h.lookup() == "10.0.0.2" })
	before, _ := k.Status()
	stop()
	copied := copyProgram(t)
	asker := New(h.cfg)
	if err := asker.connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	request := fmt.Sprintf(`{"exec": ["%s.missing", "keeper-test"]}`+"\n", copied)
	if _, err := io.WriteString(asker.conn, request); err != nil {
		t.Fatal(err)
	}
	if err := asker.read(t.Context()); err != nil || asker.status.Refused == "" {
		t.Errorf("a missing program: %+v (%v)", asker.status, err)
	}
	if h.lookup() != "10.0.0.2" {
		t.Error("it does not answer after a replacement that failed")
	}
	request = fmt.Sprintf(`{"exec": [%q, "keeper-test", "nameserver", %q]}`+"\n", copied, h.cfg.Dir)
	if _, err := io.WriteString(asker.conn, request); err != nil {
		t.Fatal(err)
	}
	program := func() string { path, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", before.Pid)); return path }
	h.await("it runs the copy", func() bool { return program() == copied })
	if h.lookup() != "10.0.0.2" {
		t.Error("it does not answer after its replacement")
	}
	h.await("the copy answers the keeper", func() bool {
		asker := New(h.cfg)
		defer asker.disconnect()
		return asker.connect(t.Context()) == nil
	})
	// The keeper's own program is another one than the copy.
	k, stop = h.start()
	defer stop()
	if now, _ := k.Status(); now.Pid != before.Pid || program() == copied || !k.Listening(loopback) {
		t.Errorf("process %d with %s, want %d with the keeper's program", now.Pid, program(), before.Pid)
	}
	if h.lookup() != "10.0.0.2" {
		t.Error("it does not answer")
	}
}

// A port that another program has is opened as soon as that ends.
func TestListenerIsRetried(t *testing.T) {
	h := newKeeperHarness(t)
	other, err := net.ListenPacket("udp", netip.AddrPortFrom(loopback, h.cfg.Settings.Port).String())
	if err != nil {
		t.Fatal(err)
	}
	k, stop := h.start()
	defer stop()
	if status, runs := k.Status(); k.Listening(loopback) || !runs ||
		!strings.Contains(status.Failed["127.0.0.1"], "in use") {
		t.Errorf("with the port of another program: %+v", status)
	}
	_ = other.Close()
	h.await("it listens", func() bool { return k.Listening(loopback) })
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.changes) != 2 || !strings.Contains(h.changes[0], "in use") || h.changes[1] != "<nil>" {
		t.Errorf("reported %q", h.changes)
	}
}

// A process that cannot start is reported, and does not keep the daemon from starting.
func TestProcessThatEnds(t *testing.T) {
	h := newKeeperHarness(t)
	h.cfg.Command = []string{"keeper-test", "-test.run=^$"}
	k := New(h.cfg)
	if err := k.Start(t.Context()); err == nil || !strings.Contains(err.Error(), h.cfg.Dir.Log()) {
		t.Errorf("error %v", err)
	}
	if _, runs := k.Status(); runs || k.Listening(loopback) || len(h.changes) != 1 {
		t.Errorf("runs %v, reported %q", runs, h.changes)
	}
}

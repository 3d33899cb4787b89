package machine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/podstead/podstead/test/machine/wire"
)

// Limits for a machine on a host that does other work as well. Tests await events; these only
// bound a test whose event never comes.
const (
	bootTimeout    = 15 * time.Minute
	offTimeout     = 15 * time.Minute
	commandTimeout = 10 * time.Minute
)

// Options of a machine. The zero value is a plain machine.
type Options struct {
	// Arch is the architecture, AMD64 if empty. One without hardware support is as fast as another.
	Arch string
	// MemoryMiB is the memory, 2048 if zero.
	MemoryMiB int
	// KernelArgs are added to the kernel's command line.
	KernelArgs string
	// Clock is the time of the machine's clock at power on, as in QEMU's -rtc base=: "utc" and
	// "1970-01-01T00:00:00" are valid. If empty, it is the host's.
	Clock string
	// NoNetwork leaves out the network interface.
	NoNetwork bool
	// QEMUArgs are added to QEMU's command line.
	QEMUArgs []string
	// Disk is the overlay to start from, which Machine.Disk returned; empty for the bare image.
	// It must not change any more.
	Disk string
}

// Machine is a machine with a disk of its own. Its methods fail the test on every error that
// they do not return.
type Machine struct {
	t       testing.TB
	options Options
	image   Image
	dir     string
	run     *qemu // nil before the first Start
	// used is the processor time of all runs before this one.
	used time.Duration
}

// Result is how a command ended.
type Result struct {
	Stdout, Stderr string
	Code           int
}

// New returns a machine that is off. The test removes it and its disk.
func New(t testing.TB, options ...Options) *Machine {
	t.Helper()
	m := &Machine{t: t, dir: t.TempDir()}
	if len(options) > 0 {
		m.options = options[0]
	}
	if m.options.MemoryMiB == 0 {
		m.options.MemoryMiB = 2048
	}
	if m.options.Arch == "" {
		m.options.Arch = AMD64
	}
	var err error
	if m.image, err = BaseImage(m.options.Arch); err != nil {
		t.Fatal(err)
	}
	agent, err := buildFor(m.image.Arch, "./test/machine/agent")
	if err != nil {
		t.Fatal(err)
	}
	if err := writeInitrd(m.initrd(), agent, m.image); err != nil {
		t.Fatal(err)
	}
	base, format := m.options.Disk, "qcow2"
	if base == "" {
		base, format = m.image.disk(), "raw"
	}
	if out, err := exec.Command("qemu-img", "create", "-q", "-f", "qcow2", "-b", base, "-F", format,
		m.Disk()).CombinedOutput(); err != nil {
		t.Fatalf("cannot create the disk: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if t.Failed() {
			m.logState()
		}
		m.kill()
	})
	return m
}

func (m *Machine) initrd() string { return filepath.Join(m.dir, "initrd") }

// Disk returns the path of the machine's disk. While the machine is off, it can be the start of
// another machine's disk.
func (m *Machine) Disk() string { return filepath.Join(m.dir, "disk.qcow2") }

// Options returns the options, which can be changed for the next Start.
func (m *Machine) Options() *Options { return &m.options }

// Start powers the machine on and waits until the agent responds, which is before the first
// service starts.
func (m *Machine) Start() {
	m.t.Helper()
	m.used = m.CPUTime()
	run, err := startQEMU(m.dir, m.options, m.image, m.Disk(), m.initrd())
	if err != nil {
		m.t.Fatal(err)
	}
	m.run = run
	select {
	case <-run.channel.ready:
	case <-run.ended:
		m.t.Fatal("the machine went off while it booted")
	case <-time.After(bootTimeout):
		m.t.Fatalf("the machine has not booted in %v", bootTimeout)
	}
}

// PowerCut kills the machine. The next Start finds on the disk what the machine had flushed.
func (m *Machine) PowerCut() { m.kill() }

func (m *Machine) kill() {
	if m.run != nil {
		m.run.kill()
	}
}

// CPUTime returns the processor time that the machine has used, of all runs together.
func (m *Machine) CPUTime() time.Duration {
	if m.run == nil {
		return 0
	}
	return m.used + m.run.cpuTime()
}

// Reboot shuts the machine down with `systemctl reboot` and powers it on again.
func (m *Machine) Reboot() {
	m.t.Helper()
	m.Sh("systemctl reboot")
	m.AwaitOff(guestReset)
	m.Start()
}

// Poweroff shuts the machine down with `systemctl poweroff`.
func (m *Machine) Poweroff() {
	m.t.Helper()
	m.Sh("systemctl poweroff")
	m.AwaitOff(guestShutdown)
}

// off reports whether the machine is off.
func (m *Machine) off() bool {
	if m.run == nil {
		return true
	}
	_, off := m.run.off()
	return off
}

// AwaitOff waits until the machine has reset ("guest-reset") or switched itself off
// ("guest-shutdown").
func (m *Machine) AwaitOff(reason string) {
	m.t.Helper()
	select {
	case <-m.run.ended:
		m.run.close()
	case <-time.After(offTimeout):
		m.t.Fatalf("the machine is not off after %v", offTimeout)
	}
	if got, _ := m.run.off(); got != reason {
		m.t.Fatalf("the machine is off with the reason %q, want %q", got, reason)
	}
}

// Run runs a command in the machine. The error reports that it could not be run, or that ctx ended
// or the machine went off meanwhile; then the result has the output so far.
func (m *Machine) Run(ctx context.Context, args ...string) (Result, error) {
	return m.RunInput(ctx, nil, args...)
}

// RunInput runs a command with input. Without input, stdin is /dev/null.
func (m *Machine) RunInput(ctx context.Context, stdin io.Reader, args ...string) (Result, error) {
	if m.run == nil {
		return Result{Code: -1}, errOff
	}
	var stdout, stderr syncBuffer
	code, err := m.run.channel.run(ctx, args, stdin, &stdout, &stderr)
	return Result{Stdout: stdout.String(), Stderr: stderr.String(), Code: code}, err
}

// Try runs a shell script and returns its output, stderr after stdout, and an error if it does
// not exit with 0.
func (m *Machine) Try(script string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
	defer cancel()
	return m.output(ctx, script, "sh", "-c", script)
}

// agent returns the output of a command of the agent itself: wire.Builtin reports which ones there are.
func (m *Machine) agent(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
	defer cancel()
	return m.output(ctx, strings.Join(args, " "), append([]string{wire.Builtin}, args...)...)
}

// output runs a command, whose name is for the error.
func (m *Machine) output(ctx context.Context, name string, args ...string) (string, error) {
	r, err := m.Run(ctx, args...)
	out := strings.TrimSuffix(r.Stdout+r.Stderr, "\n")
	if err == nil && r.Code != 0 {
		err = fmt.Errorf("exit code %d", r.Code)
	}
	if err != nil {
		return out, fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return out, nil
}

// Sh is Try for a script that must succeed.
func (m *Machine) Sh(script string) string {
	m.t.Helper()
	out, err := m.Try(script)
	if err != nil {
		m.t.Fatal(err)
	}
	return out
}

// Await runs a check until it returns nil, for at most limit. Checks take at most half of the time,
// since they run on the processors of the machine.
func (m *Machine) Await(what string, limit time.Duration, check func() error) {
	m.t.Helper()
	deadline := time.Now().Add(limit)
	for {
		began := time.Now()
		err := check()
		if err == nil {
			return
		}
		if errors.Is(err, errOff) {
			m.t.Fatalf("%s: %v", what, err)
		}
		if time.Now().After(deadline) {
			m.t.Fatalf("not in %v: %s: %v", limit, what, err)
		}
		time.Sleep(max(time.Second, time.Since(began)))
	}
}

// Write writes a file atomically, as a careful editor does: to a temporary file, which is synced
// and renamed.
func (m *Machine) Write(path, content string) {
	m.t.Helper()
	m.copyIn(strings.NewReader(content), path, 0o644)
}

// CopyIn copies a file of the host to a path in the machine, synced.
func (m *Machine) CopyIn(file, path string, mode os.FileMode) {
	m.t.Helper()
	f, err := os.Open(file)
	if err != nil {
		m.t.Fatal(err)
	}
	defer f.Close()
	m.copyIn(f, path, mode)
}

func (m *Machine) copyIn(content io.Reader, path string, mode os.FileMode) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
	defer cancel()
	script := `mkdir -p "$(dirname "$1")" && tmp=$(dirname "$1")/.$(basename "$1").tmp && cat >"$tmp" && chmod "$2" "$tmp" && sync "$tmp" && mv "$tmp" "$1"`
	r, err := m.RunInput(ctx, content, "sh", "-c", script, "sh", path, fmt.Sprintf("%o", mode.Perm()))
	if err != nil || r.Code != 0 {
		m.t.Fatalf("cannot copy to %s: %v: exit code %d: %s", path, err, r.Code, r.Stderr)
	}
}

// CopyOut returns the content of a file of the machine.
func (m *Machine) CopyOut(path string) []byte {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
	defer cancel()
	r, err := m.Run(ctx, "cat", path)
	if err != nil || r.Code != 0 {
		m.t.Fatalf("cannot copy %s: %v: %s", path, err, r.Stderr)
	}
	return []byte(r.Stdout)
}

// Journal returns the journal of the last boot, also of a machine that is off.
func (m *Machine) Journal() string { return readFile(filepath.Join(m.dir, "journal")) }

// Console returns what the kernel and other writers of /dev/ttyS0 wrote in the last boot.
func (m *Machine) Console() string { return readFile(filepath.Join(m.dir, "console")) }

func readFile(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return strings.ToValidUTF8(strings.ReplaceAll(string(text), "\r", ""), "?")
}

// logState logs the end of the console and of the journal, and what podstead reports.
func (m *Machine) logState() {
	if m.run == nil {
		return
	}
	m.t.Logf("console:\n%s", lastLines(m.Console(), 40))
	m.t.Logf("journal:\n%s", lastLines(m.Journal(), 200))
	if _, off := m.run.off(); off {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := m.Run(ctx, "sh", "-c", "podstead get pods; podstead status; podstead get events | tail -n 40; systemctl "+
		"--failed --no-pager; crictl ps 2>/dev/null; ctr -n k8s.io containers ls; df; uptime")
	m.t.Logf("state (%v):\n%s%s", err, r.Stdout, r.Stderr)
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// syncBuffer collects output that a command may still write when its context has ended.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

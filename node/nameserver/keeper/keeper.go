package keeper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/podstead/podstead/internal/pidfd"
	"github.com/podstead/podstead/internal/retry"
	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/node/nameserver"
	"github.com/podstead/podstead/node/nameserver/zone"
)

const (
	// The delays between restarts of a process that ends.
	restartMin = 500 * time.Millisecond
	restartMax = 30 * time.Second
	// stableAfter is how long it must have run to reset the delay.
	stableAfter = time.Minute
	// startTimeout limits how long Start waits: pods start without the name server too.
	startTimeout = 10 * time.Second
	startPoll    = 20 * time.Millisecond
	dialTimeout  = time.Second
	// maxStatus limits a line of the control socket in bytes.
	maxStatus = 1 << 20
)

// Config configures a Keeper.
type Config struct {
	Dir nameserver.Directory
	// Settings is the snapshot without its zone.
	Settings nameserver.Snapshot
	// Command is the program of the process and its arguments.
	Command []string
	// Changed is called when Listening changes, with the reason why an address is not open; nil
	// once all are. It must not block.
	Changed func(err error)
	// Disk is where the snapshot is.
	Disk statefile.Disk
	Log  *slog.Logger
}

// Keeper keeps the name server running. Its methods may be called concurrently, Start and Run by
// one caller.
type Keeper struct {
	cfg  Config
	conn net.Conn
	// reports are the statuses that arrive at conn.
	reports  *json.Decoder
	snapshot *statefile.File[nameserver.Snapshot]
	// saving is held while the names are written, and while those that are there are written again.
	saving sync.Mutex

	mu      sync.Mutex
	status  nameserver.Status
	running bool
	// reported is the last error that Changed was called with.
	reported string
}

// New creates a keeper. Start and Run start the process.
func New(cfg Config) *Keeper {
	if cfg.Changed == nil {
		cfg.Changed = func(error) {}
	}
	return &Keeper{cfg: cfg, snapshot: nameserver.SnapshotFormat.File(cfg.Dir.Snapshot(), cfg.Disk)}
}

// Runs reports whether a name server of the directory runs.
func Runs(dir nameserver.Directory) bool {
	conn, err := net.DialTimeout("unix", dir.Socket(), dialTimeout)
	if err == nil {
		_ = conn.Close()
	}
	return err == nil
}

// Ask returns what the name server of a directory reports; an error if none runs.
func Ask(dir nameserver.Directory) (status nameserver.Status, err error) {
	conn, err := net.DialTimeout("unix", dir.Socket(), dialTimeout)
	if err != nil {
		return status, err
	}
	defer conn.Close()
	_ = conn.SetReadDeadline(time.Now().Add(dialTimeout))
	err = json.NewDecoder(io.LimitReader(conn, maxStatus)).Decode(&status)
	return status, err
}

// Listening reports whether the name server answers at an address.
func (k *Keeper) Listening(address netip.Addr) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.running && slices.Contains(k.status.Listening, address)
}

// Status returns the last report of the process, and whether it runs.
func (k *Keeper) Status() (nameserver.Status, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.status, k.running
}

// Publish writes the names of the pods. It does nothing if they are the same as before.
func (k *Keeper) Publish(z zone.Zone) error {
	k.saving.Lock()
	defer k.saving.Unlock()
	return k.save(z)
}

// save writes the snapshot; saving is held.
func (k *Keeper) save(z zone.Zone) error {
	snapshot := k.cfg.Settings
	snapshot.Version, snapshot.Zone = nameserver.SnapshotVersion, z
	return k.snapshot.Save(snapshot)
}

// Zone returns the names that were published last, also by a previous daemon; the zero Zone if
// there are none.
func (k *Keeper) Zone() zone.Zone {
	before, err := k.snapshot.Load()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		k.cfg.Log.Warn("Failed to read the names that were published before", "err", err)
	}
	if err != nil || before.Domain != k.cfg.Settings.Domain {
		return zone.Zone{}
	}
	return before.Zone
}

// Start finds the process or starts it, and returns once it has reported whether it listens. An
// error reports why it does not run yet; Run continues to try.
func (k *Keeper) Start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	err := k.start(ctx)
	if err != nil {
		k.setStopped(err)
	}
	return err
}

func (k *Keeper) start(ctx context.Context) error {
	if err := k.connect(ctx); err == nil {
		err := k.replaceIfOther(ctx)
		switch {
		case errors.Is(err, errEnded):
			k.cfg.Log.Warn("The name server of pods ended while its program was replaced, starting it", "err", err)
		case err != nil && k.conn == nil:
			return err
		case err != nil:
			k.cfg.Log.Warn("Failed to replace the program of the name server of pods; the previous one keeps answering", "err",
				err)
		}
	}
	if err := k.writeSettings(); err != nil {
		return err
	}
	if k.conn == nil {
		return k.launch(ctx)
	}
	return k.awaitListening(ctx)
}

// writeSettings writes the settings of this daemon, with the names that were published before:
// they are right until the first of this daemon are known.
func (k *Keeper) writeSettings() error {
	k.saving.Lock()
	defer k.saving.Unlock()
	return k.save(k.Zone())
}

// connect connects to the control socket and reads the first report.
func (k *Keeper) connect(ctx context.Context) error {
	k.disconnect()
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", k.cfg.Dir.Socket())
	if err != nil {
		return err
	}
	k.conn, k.reports = conn, json.NewDecoder(io.LimitReader(conn, maxStatus))
	return k.read(ctx)
}

func (k *Keeper) disconnect() {
	if k.conn != nil {
		_ = k.conn.Close()
		k.conn = nil
	}
}

// read waits for the next report.
func (k *Keeper) read(ctx context.Context) error {
	conn := k.conn
	stop := context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	var status nameserver.Status
	if err := k.reports.Decode(&status); err != nil {
		k.disconnect()
		return fmt.Errorf("the control socket was closed: %w", err)
	}
	_ = conn.SetReadDeadline(time.Time{})
	k.reports = json.NewDecoder(io.LimitReader(io.MultiReader(k.reports.Buffered(), conn), maxStatus))
	k.setStatus(status)
	return nil
}

// awaitListening waits until the process has opened its listeners, or failed to.
func (k *Keeper) awaitListening(ctx context.Context) error {
	for {
		if status, _ := k.Status(); status.Snapshot && len(status.Listening)+len(status.Failed) > 0 {
			return nil
		}
		if err := k.read(ctx); err != nil {
			return err
		}
	}
}

func (k *Keeper) setStatus(status nameserver.Status) {
	k.mu.Lock()
	k.status, k.running = status, true
	var failed []string
	for address, why := range status.Failed {
		failed = append(failed, address+": "+why)
	}
	slices.Sort(failed)
	settled := status.Snapshot && len(status.Listening)+len(failed) > 0
	text := strings.Join(failed, "; ")
	changed := settled && text != k.reported
	if settled {
		k.reported = text
	}
	k.mu.Unlock()
	switch {
	case !changed:
	case text == "":
		k.cfg.Changed(nil)
	default:
		k.cfg.Changed(errors.New(text))
	}
}

// setStopped records that the process does not run.
func (k *Keeper) setStopped(err error) {
	k.mu.Lock()
	k.running = false
	text := err.Error()
	changed := k.reported != text
	k.reported = text
	k.mu.Unlock()
	if changed {
		k.cfg.Changed(err)
	}
}

// replaceIfOther replaces the program of the process unless it is this daemon's. It is connected to the process
// afterwards, unless that does not answer or has ended (errEnded).
func (k *Keeper) replaceIfOther(ctx context.Context) error {
	status, _ := k.Status()
	theirs, err := os.Stat(fmt.Sprintf("/proc/%d/exe", status.Pid))
	if err != nil {
		return err
	}
	own, err := os.Stat("/proc/self/exe")
	if err != nil || os.SameFile(theirs, own) {
		return err
	}
	process, err := pidfd.Open(status.Pid)
	if err != nil {
		return err
	}
	defer process.Close()
	k.cfg.Log.Info("Replacing the program of the name server of pods", "pid", status.Pid)
	if replaced, err := k.replace(); !replaced {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	var waiting sync.WaitGroup
	waiting.Go(func() {
		if process.Wait(ctx) == nil {
			close(ended)
		}
	})
	defer func() {
		cancel()
		waiting.Wait() // before the descriptor is closed
	}()
	return k.awaitConnection(ctx, ended)
}

// replace asks the process to become this daemon's program, and reports whether it has begun to. If not, the error
// reports why.
func (k *Keeper) replace() (bool, error) {
	// The path of this daemon's program may be that of another one by now.
	argv := append([]string{fmt.Sprintf("/proc/%d/exe", os.Getpid())}, k.cfg.Command...)
	_ = k.conn.SetWriteDeadline(time.Now().Add(dialTimeout))
	if err := json.NewEncoder(k.conn).Encode(nameserver.Request{Exec: argv}); err != nil {
		return false, err
	}
	// The connection ends with the program. A failure leaves it open.
	_ = k.conn.SetReadDeadline(time.Now().Add(replaceTimeout))
	for {
		var status nameserver.Status
		err := k.reports.Decode(&status)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			k.disconnect()
			return false, errors.New("it did not answer in time")
		}
		if err != nil {
			k.disconnect()
			return true, nil
		}
		if status.Refused != "" {
			_ = k.conn.SetReadDeadline(time.Time{})
			return false, errors.New(status.Refused)
		}
	}
}

const replaceTimeout = 5 * time.Second

// launch starts the process and waits until it has reported whether it listens.
func (k *Keeper) launch(ctx context.Context) error {
	if err := k.cfg.Dir.Create(); err != nil {
		return err
	}
	// The previous log reports why the previous process ended.
	_ = os.Rename(k.cfg.Dir.Log(), k.cfg.Dir.Log()+".previous")
	logFile, err := os.OpenFile(k.cfg.Dir.Log(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("failed to open the log of the name server of pods: %w", err)
	}
	defer logFile.Close()
	// In the child, this is the daemon's program, even if its path is that of another one by now.
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = k.cfg.Command
	cmd.Stdout, cmd.Stderr = logFile, logFile
	cmd.Dir = "/"
	cmd.Env = childEnv(os.Environ())
	// In its own session it does not receive signals to our process group.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("failed to start the name server of pods: %w", err)
	}
	ended := make(chan struct{})
	// This goroutine outlives launch on purpose: it reaps the child, which is meant to outlive
	// this daemon.
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	if err := k.awaitConnection(ctx, ended); err != nil {
		return fmt.Errorf("%w; its log is %s", err, k.cfg.Dir.Log())
	}
	k.cfg.Log.Info("Name server of pods started", "pid", cmd.Process.Pid, "log", k.cfg.Dir.Log())
	return k.awaitListening(ctx)
}

var errEnded = errors.New("the name server of pods ended during its start")

// awaitConnection connects as soon as the process answers. ended is closed when it has ended; nil
// if that cannot be observed.
func (k *Keeper) awaitConnection(ctx context.Context, ended <-chan struct{}) error {
	for {
		err := k.connect(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ended:
			return errEnded
		case <-ctx.Done():
			return fmt.Errorf("the name server of pods does not answer: %w", err)
		case <-time.After(startPoll):
		}
	}
}

// childEnv returns the environment without podstead's own variables of systemd.
func childEnv(env []string) (out []string) {
	for _, e := range env {
		if !strings.HasPrefix(e, "NOTIFY_SOCKET=") && !strings.HasPrefix(e, "WATCHDOG_") {
			out = append(out, e)
		}
	}
	return out
}

// Run watches the process and starts it again whenever it ends, until ctx ends. It never stops it.
func (k *Keeper) Run(ctx context.Context) error {
	defer k.disconnect()
	pause := restartMin
	for {
		since := time.Now()
		err := errors.New("it did not start")
		for k.conn != nil {
			err = k.read(ctx)
		}
		if ctx.Err() != nil {
			return nil
		}
		if time.Since(since) > stableAfter {
			pause = restartMin
		}
		k.cfg.Log.Warn("Name server of pods does not run, starting it", "err", err, "log", k.cfg.Dir.Log()+".previous")
		if !retry.Sleep(ctx, pause) {
			return nil
		}
		pause = min(2*pause, restartMax)
		if err := k.Start(ctx); err != nil && ctx.Err() == nil {
			k.cfg.Log.Error("Failed to start the name server of pods, retrying", "err", err, "retryIn", pause)
		}
	}
}

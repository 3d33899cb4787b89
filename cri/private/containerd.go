package private

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/podstead/podstead/internal/retry"
)

// The delays between restarts of a containerd that exits, and the polling of its
// socket while it starts.
const (
	restartMin = 500 * time.Millisecond
	restartMax = 30 * time.Second
	// stableAfter is how long it must have run to reset the delay.
	stableAfter = time.Minute
	startPoll   = 50 * time.Millisecond
	startLimit  = 3 * time.Minute
)

// Containerd is the private containerd.
type Containerd struct {
	cfg    Config
	binary string
	log    *slog.Logger
	// ended is closed when the process started last has exited; nil if this
	// daemon started none.
	ended chan struct{}
}

// New creates a Containerd for the given binary; Start and Run start it.
func New(cfg Config, binary string, log *slog.Logger) *Containerd {
	return &Containerd{cfg: cfg, binary: binary, log: log}
}

// Start returns when the containerd responds. One that runs already, started by an
// earlier podstead, is adopted as it is, unless its network was removed: then it is restarted
// with another one, while containers keep running. One that cannot start because its disk cannot
// be written to is no error: Run starts it when the disk has recovered.
func (c *Containerd) Start(ctx context.Context) error {
	if Answers(ctx, c.cfg.Socket()) && !c.endedWithoutNetwork(ctx) {
		if err := c.cfg.removeMirror(); err != nil {
			c.log.Warn("Failed to remove the image mirror of the private containerd", "err", err)
		}
		if bin, err := c.cfg.cniBin(); err == nil {
			c.cfg.updateNetwork(c.cfg.ownCNIConf(), bin)
		}
		c.updateRanges()
		c.log.Info("Found running private containerd", "socket", c.cfg.Socket())
		return nil
	}
	if err := c.cfg.prepare(); err != nil {
		return err
	}
	c.updateRanges()
	err := c.launch(ctx)
	if err == nil || ctx.Err() != nil {
		return err
	}
	fault := c.cfg.checkDisk()
	if fault == nil {
		return err
	}
	c.cfg.Disk.Unwritten.Report(c.cfg.Root, fault)
	c.log.Error("Failed to start private containerd, retrying; its disk cannot be written to", "err", err, "disk", fault)
	return nil
}

// updateRanges applies PodCIDRs to the network in use. Pods keep running in the network as it is if
// that cannot be.
func (c *Containerd) updateRanges() {
	dir, _, err := c.cfg.Network()
	if err == nil {
		err = c.cfg.updateRanges(dir)
	}
	if err != nil {
		c.log.Warn("Failed to set the pod CIDR, the network of pods stays as it is", "podCIDR", fmt.Sprint(c.cfg.PodCIDRs),
			"err", err)
	}
}

// Run watches the containerd that Start started and restarts it whenever it
// exits, until ctx ends. It never stops it.
func (c *Containerd) Run(ctx context.Context) error {
	pause := restartMin
	for {
		since := time.Now()
		hung := false
		if err := c.waitEnd(ctx); ctx.Err() != nil {
			return nil
		} else if err != nil {
			// It exists and does not respond; a second one would only wait for the
			// first one's locks.
			c.log.Debug("Failed to watch private containerd", "err", err)
			hung = true
		} else if !c.starting() {
			c.log.Warn("Private containerd exited, restarting it; containers keep running", "log", c.cfg.LogFile())
		}
		if time.Since(since) > stableAfter {
			pause = restartMin
		}
		if !retry.Sleep(ctx, pause) {
			return nil
		}
		pause = min(2*pause, restartMax)
		if hung || c.starting() || Answers(ctx, c.cfg.Socket()) {
			continue
		}
		if err := c.launch(ctx); err != nil && ctx.Err() == nil {
			c.log.Error("Failed to start private containerd, retrying", "err", err, "retryIn", pause)
		}
	}
}

// starting reports whether the process started last still lives. Run calls it
// when nothing listens: then the process takes longer than launch waited.
func (c *Containerd) starting() bool {
	if c.ended == nil {
		return false
	}
	select {
	case <-c.ended:
		return false
	default:
		return true
	}
}

// launch starts the process and waits until it responds.
func (c *Containerd) launch(ctx context.Context) error {
	logFile, err := c.cfg.openLog()
	if err != nil {
		return fmt.Errorf("failed to open the log of the private containerd: %w", err)
	}
	defer logFile.Close()
	c.warnOfRestrictions()
	begin := time.Now()
	cmd := exec.Command(c.binary, "--config", c.cfg.file())
	cmd.Stdout, cmd.Stderr = logFile, logFile
	cmd.Dir = "/"
	// NOTIFY_SOCKET and WATCHDOG_* are podstead's: a child that reports itself
	// ready in its place would confuse systemd.
	cmd.Env = childEnv(os.Environ(), filepath.Dir(c.binary))
	// In its own session it does not receive signals to our process group or the
	// hang-up of our terminal.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("failed to start the private containerd: %w", err)
	}
	ended := make(chan struct{})
	c.ended = ended
	// This goroutine outlives launch on purpose: it reaps the child, which is
	// meant to outlive this daemon.
	go func() {
		_ = cmd.Wait() // its state reports more than the error
		close(ended)
	}()

	limit, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		select {
		case <-ended:
			return fmt.Errorf("the private containerd exited during startup (%v); its log is %s", cmd.ProcessState,
				logFile.Name())
		default:
		}
		if Answers(limit, c.cfg.Socket()) {
			c.cfg.Disk.Unwritten.Report(c.cfg.Root, nil)
			c.log.Info("Private containerd started", "socket", c.cfg.Socket(), "pid", cmd.Process.Pid, "log", logFile.Name(),
				"took", time.Since(begin).Round(time.Millisecond))
			return nil
		}
		if !retry.Sleep(limit, startPoll) {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("the private containerd does not answer on %s after %s; its log is %s", c.cfg.Socket(), startLimit,
				logFile.Name())
		}
	}
}

// Binary finds containerd in PATH; sbin directories are tried too, since a
// service's PATH may lack them.
func Binary() (string, error) {
	for _, name := range []string{"containerd", "/usr/local/bin/containerd", "/usr/bin/containerd"} {
		if p, err := exec.LookPath(name); err == nil {
			return p, nil
		}
	}
	return "", errors.New("no container runtime answers on " + strings.Join(UsualSockets, ", ") +
		" and no containerd is installed; start one, name it with --container-runtime-endpoint, or install it (Debian: " +
		"apt-get install containerd runc containernetworking-plugins)")
}

// childEnv returns the environment without podstead's own variables, and with the
// containerd's directory first in PATH: a host may have the shim of another
// version too, and the two must match.
func childEnv(env []string, dir string) []string {
	out := make([]string, 0, len(env)+1)
	path := dir
	for _, e := range env {
		switch {
		case strings.HasPrefix(e, "NOTIFY_SOCKET="), strings.HasPrefix(e, "WATCHDOG_"):
		case strings.HasPrefix(e, "PATH="):
			path = dir + ":" + strings.TrimPrefix(e, "PATH=")
		default:
			out = append(out, e)
		}
	}
	return append(out, "PATH="+path)
}

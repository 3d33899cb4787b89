package private

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// endLimit is how long a containerd may take to end after SIGTERM.
const endLimit = 30 * time.Second

// endedWithoutNetwork reports whether it has ended the containerd that runs because the directory of
// network configs that it uses, the host's, was emptied. No pod could start until the next boot: a
// containerd reads the name of the directory only when it starts.
func (c *Containerd) endedWithoutNetwork(ctx context.Context) bool {
	dir, own, err := c.cfg.Network()
	if err != nil || own {
		return false
	}
	if has, err := hasNetwork(dir); err != nil || has {
		return false
	}
	if _, err := c.cfg.cniBin(); err != nil {
		return false // it could not start again
	}
	c.log.Warn("The private containerd has no network any more, restarting it with another one; containers keep running",
		"cniConfDir", dir)
	if err := c.end(ctx); err != nil {
		c.log.Warn("Failed to restart the private containerd, no pod can start before the next boot", "err", err)
		return false
	}
	return true
}

// end ends the process behind the socket.
func (c *Containerd) end(ctx context.Context) error {
	process, err := c.process(ctx)
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	if err != nil {
		return err
	}
	defer process.Close()
	if err := process.Signal(unix.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, endLimit)
	defer cancel()
	return process.Wait(ctx)
}

package httpapi

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/net/netutil"
	"golang.org/x/sys/unix"
)

// maxConnections bounds the open connections of one listener; who comes later
// waits. A listener takes no more than a quarter of the files that the daemon may
// open: it needs them for pods too.
const maxConnections = 4096

func limitConnections(ln net.Listener) net.Listener {
	most := uint64(maxConnections)
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err == nil {
		most = max(16, min(most, files.Cur/4))
	}
	return netutil.LimitListener(ln, int(most))
}

// listenTCP opens host:port; the flag is what a person would change.
func listenTCP(ctx context.Context, address, what, flag string) (net.Listener, error) {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("cannot open the %s %s: %w; choose another with %s, or 0 for none", what, address, err, flag)
	}
	return ln, nil
}

// listenUnix opens the socket for its owner and group. A socket that nobody
// answers on is a left-over of a killed daemon and is replaced; one that
// answers belongs to a living daemon and is an error.
func listenUnix(ctx context.Context, path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("cannot make the folder of --api-socket: %w", err)
	}
	fi, err := os.Lstat(path)
	switch {
	case err == nil && fi.Mode().Type() != fs.ModeSocket:
		return nil, fmt.Errorf("--api-socket %s is there and is no socket; remove it or choose another path", path)
	case err == nil:
		c, err := new(net.Dialer).DialContext(ctx, "unix", path)
		if err == nil {
			_ = c.Close()
			return nil, fmt.Errorf("another podstead answers on %s; stop it first, or give this one its own --api-socket and --root-dir", path)
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("cannot remove the old socket: %w", err)
		}
	}
	// A private name first: between bind and chmod nobody may find the
	// socket with the permissions that the umask left.
	tmp := fmt.Sprintf("%s.%d", path, os.Getpid())
	_ = os.Remove(tmp)
	ln, err := new(net.ListenConfig).Listen(ctx, "unix", tmp)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on --api-socket %s: %w", path, err)
	}
	ln.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := publish(tmp, path); err != nil {
		_ = ln.Close()
		_ = os.Remove(tmp)
		return nil, fmt.Errorf("cannot put --api-socket %s in its place: %w", path, err)
	}
	return &socketListener{Listener: ln, path: path}, nil
}

// publish gives the socket its mode, then its name.
func publish(tmp, path string) error {
	if err := os.Chmod(tmp, 0o660); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

// socketListener removes its socket file when it closes.
type socketListener struct {
	net.Listener
	path string
}

func (l *socketListener) Close() error {
	err := l.Listener.Close()
	_ = os.Remove(l.path)
	return err
}

package httpapi

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
)

// listenTCP listens on host:port. An error names the flag to change.
func listenTCP(ctx context.Context, address, what, flag string) (net.Listener, error) {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("failed to open the %s %s: %w; choose another one with %s, or 0 to disable it", what, address,
			err, flag)
	}
	return ln, nil
}

// listenUnix opens the socket for its owner and group. A socket on which nothing responds
// was left by a killed daemon and is replaced. A socket that responds belongs to a running
// daemon and is an error.
func listenUnix(ctx context.Context, path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("failed to create the directory of --api-socket: %w", err)
	}
	fi, err := os.Lstat(path)
	switch {
	case err == nil && fi.Mode().Type() != fs.ModeSocket:
		return nil, fmt.Errorf("--api-socket %s exists and is not a socket; remove it or choose another path", path)
	case err == nil:
		c, err := new(net.Dialer).DialContext(ctx, "unix", path)
		if err == nil {
			_ = c.Close()
			return nil, fmt.Errorf("another podstead is running on %s; stop it first, or give this one its own --api-socket "+
				"and --root-dir", path)
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("failed to remove the old socket: %w", err)
		}
	}
	// The socket is created under a private name first: between bind and chmod no client
	// may find it with the permissions that the umask left.
	tmp := fmt.Sprintf("%s.%d", path, os.Getpid())
	_ = os.Remove(tmp)
	ln, err := new(net.ListenConfig).Listen(ctx, "unix", tmp)
	if err != nil {
		return nil, fmt.Errorf("failed to listen on --api-socket %s: %w", path, err)
	}
	ln.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := publish(tmp, path); err != nil {
		_ = ln.Close()
		_ = os.Remove(tmp)
		return nil, fmt.Errorf("failed to move --api-socket %s into place: %w", path, err)
	}
	return &socketListener{Listener: ln, path: path}, nil
}

// publish sets the mode of the socket, then its name.
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

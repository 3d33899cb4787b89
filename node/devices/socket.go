package devices

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"
	"google.golang.org/grpc"

	"github.com/podstead/podstead/internal/boundedfile"
)

// relistenDelay is how long Run waits before it opens a registration socket that was removed: a
// kubelet that starts removes it and opens its own.
const relistenDelay = time.Second

// socket is the path of the registration socket.
func (m *Manager) socket() string { return filepath.Join(m.options.Dir, SocketName) }

// Open creates the directory and the registration socket, so that an error can end the start of
// the daemon. Run serves it. It removes the sockets that plugins of a previous daemon had, as the
// kubelet does: plugins take that, and the new registration socket, as the signal to register
// again. The error wraps ErrInUse if another program serves the socket.
func (m *Manager) Open() (*net.UnixListener, error) {
	if err := os.MkdirAll(m.options.Dir, 0o750); err != nil {
		return nil, fmt.Errorf("failed to create the directory of device plugins: %w", err)
	}
	if err := m.socketInUse(); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(m.options.Dir)
	if err != nil {
		return nil, fmt.Errorf("failed to list the directory of device plugins: %w", err)
	}
	for _, e := range entries {
		if e.Type()&fs.ModeSocket == 0 {
			continue
		}
		if err := os.Remove(filepath.Join(m.options.Dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("failed to remove the socket of a previous device plugin: %w", err)
		}
	}
	return m.listen()
}

// listen creates the socket. Closing it does not remove the path, which may be the socket of
// another program by then; removeSocket does.
func (m *Manager) listen() (*net.UnixListener, error) {
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: m.socket(), Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("failed to create the registration socket of device plugins: %w", err)
	}
	listener.SetUnlinkOnClose(false)
	m.created, _ = os.Lstat(m.socket())
	return listener, nil
}

// removeSocket removes the socket, if it is the one that listen has created.
func (m *Manager) removeSocket() {
	if info, err := os.Lstat(m.socket()); err == nil && m.created != nil && os.SameFile(info, m.created) {
		_ = os.Remove(m.socket())
	}
}

// ErrInUse is in the error of Open if another program, such as a kubelet, serves the socket.
var ErrInUse = errors.New("the registration socket of device plugins is in use")

// socketInUse returns an error if another program serves the socket.
func (m *Manager) socketInUse() error {
	conn, err := net.DialTimeout("unix", m.socket(), time.Second)
	if err != nil {
		return nil
	}
	defer conn.Close()
	return fmt.Errorf("%w: %s serves %s; stop it, or give another directory with --device-plugin-dir (devicePluginDir)",
		ErrInUse, owner(conn), m.socket())
}

// owner describes the process that listens on the other side of a connection.
func owner(conn net.Conn) string {
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return "another process"
	}
	text := "another process"
	_ = raw.Control(func(fd uintptr) {
		peer, err := syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
		if err != nil || peer.Pid == 0 {
			return
		}
		text = fmt.Sprintf("process %d", peer.Pid)
		if name, err := boundedfile.Read(fmt.Sprintf("/proc/%d/comm", peer.Pid), 64); err == nil {
			text = fmt.Sprintf("%s (process %d)", strings.TrimSpace(string(name)), peer.Pid)
		}
	})
	return text
}

// runWithoutSocket is Run without a registration socket.
func (m *Manager) runWithoutSocket(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-m.saveRequested.C():
			m.saveRepeatedly()
		case w := <-m.watched:
			w.result <- m.connect(ctx, w.plugin)
		}
	}
}

// Run serves the registration socket that Open returned, which it closes; nil serves none. It
// watches for local devices that appear and disappear, if there are any in the configuration, and writes the checkpoint
// of what changed. It returns when the context ends and all that it started has ended. If the socket is removed it is
// created again, unless another program has taken it; the kernel reports no removal of a directory above it, which is
// found once a minute.
func (m *Manager) Run(ctx context.Context, listener *net.UnixListener) error {
	ctx, cancel := context.WithCancel(ctx)
	// In this order: the connections to plugins end with the context.
	defer m.plugins.Wait()
	defer cancel()
	if len(m.options.Local) > 0 {
		m.plugins.Go(func() { m.watchLocal(ctx) })
	}
	if listener == nil {
		return m.runWithoutSocket(ctx)
	}
	defer m.removeSocket()
	var events chan fsnotify.Event
	var faults chan error
	watcher, err := fsnotify.NewWatcher()
	if err == nil {
		defer watcher.Close()
		events, faults = watcher.Events, watcher.Errors
		err = watcher.Add(m.options.Dir)
	}
	if err != nil {
		m.log.Warn("Failed to watch the directory of device plugins; if the registration socket is removed, that is found "+
			"a minute later", "directory", m.options.Dir, "err", err)
	}
	server := m.serve(ctx, listener)
	defer func() {
		if server != nil {
			server.Stop()
		}
	}()
	check := time.NewTicker(cmp.Or(m.options.SocketCheck, time.Minute))
	defer check.Stop()
	var relisten <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-m.saveRequested.C():
			m.saveRepeatedly()
		case w := <-m.watched:
			w.result <- m.connect(ctx, w.plugin)
		case e := <-events:
			if e.Name == m.socket() && e.Has(fsnotify.Remove|fsnotify.Rename) || e.Name == m.options.Dir &&
				e.Has(fsnotify.Remove|fsnotify.Rename) {
				relisten = time.After(relistenDelay)
			}
		case err := <-faults:
			m.log.Warn("Failed to watch the directory of device plugins", "directory", m.options.Dir, "err", err)
		case <-check.C:
			if _, err := os.Lstat(m.socket()); errors.Is(err, fs.ErrNotExist) && relisten == nil {
				relisten = time.After(0)
			}
		case <-relisten:
			relisten = nil
			if server != nil {
				server.Stop()
			}
			server = m.reopen(ctx, watcher)
		}
	}
}

// reopen creates the socket again after it was removed; nil if that is not possible.
func (m *Manager) reopen(ctx context.Context, watcher *fsnotify.Watcher) *grpc.Server {
	err := os.MkdirAll(m.options.Dir, 0o750)
	if err == nil {
		err = m.socketInUse()
	}
	if err == nil {
		if watcher != nil {
			_ = watcher.Add(m.options.Dir) // it may be a new directory
		}
		if err = os.Remove(m.socket()); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	var listener *net.UnixListener
	if err == nil {
		listener, err = m.listen()
	}
	if err != nil {
		m.log.Error("Registration socket of device plugins was removed and cannot be created again, retrying; plugins "+
			"cannot register", "err", err)
		return nil
	}
	m.log.Warn("Registration socket of device plugins was removed, created again", "socket", m.socket())
	return m.serve(ctx, listener)
}

// serve serves a listener until the server is stopped.
func (m *Manager) serve(ctx context.Context, listener *net.UnixListener) *grpc.Server {
	if listener == nil {
		return nil
	}
	server := m.newServer(ctx)
	m.plugins.Go(func() {
		if err := server.Serve(listener); err != nil && ctx.Err() == nil {
			m.log.Error("Registration of device plugins ended", "err", err)
		}
	})
	return server
}

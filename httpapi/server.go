package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/podstead/podstead/httpapi/access"
)

// Limits of every listener. They keep a slow or hostile client from holding
// memory or connections for long; answers are small enough for the write time,
// and what streams (logs) has limits of its own.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 30 * time.Second
	writeTimeout      = 60 * time.Second
	idleTimeout       = 90 * time.Second
	maxHeaderBytes    = 64 << 10
	closeTimeout      = 5 * time.Second
)

// Config says where to listen.
type Config struct {
	// Socket is the path of the unix socket; empty opens none.
	Socket string
	// HealthAddress is host:port of the health listener; empty opens none.
	HealthAddress string
	Log           *slog.Logger
}

// Server serves the table of routes.
type Server struct {
	cfg    Config
	routes []Route
}

// New makes a server; nothing listens before Run.
func New(cfg Config, src Sources) *Server {
	return &Server{cfg: cfg, routes: Routes(src)}
}

// Listeners are open listeners that Serve takes over.
type Listeners struct {
	socket, health net.Listener
}

// Close closes what was opened, for callers that never reach Serve.
func (l *Listeners) Close() {
	for _, ln := range []net.Listener{l.socket, l.health} {
		if ln != nil {
			_ = ln.Close()
		}
	}
}

// Listen opens the configured listeners, so that a taken port or socket is an
// error at start and not a line in a log.
func (s *Server) Listen(ctx context.Context) (*Listeners, error) {
	l := &Listeners{}
	if s.cfg.Socket != "" {
		ln, err := listenUnix(ctx, s.cfg.Socket)
		if err != nil {
			return nil, err
		}
		l.socket = ln
	}
	if s.cfg.HealthAddress != "" {
		ln, err := new(net.ListenConfig).Listen(ctx, "tcp", s.cfg.HealthAddress)
		if err != nil {
			l.Close()
			return nil, fmt.Errorf("cannot open the health port %s: %w; choose another with --healthz-port, or 0 for none", s.cfg.HealthAddress, err)
		}
		l.health = ln
	}
	return l, nil
}

// Serve answers on the listeners until ctx ends, then lets running requests
// end for a few seconds.
func (s *Server) Serve(ctx context.Context, l *Listeners) error {
	g, ctx := errgroup.WithContext(ctx)
	if l.socket != nil {
		// The mode of the socket's file is the permission.
		s.serve(ctx, g, l.socket, handler(s.routes, access.All, func(*http.Request) (access.Caller, error) {
			return access.Caller{User: "owner of the socket", May: access.All, Local: true}, nil
		}))
	}
	if l.health != nil {
		s.serve(ctx, g, l.health, handler(s.routes, access.Health, everybody(access.Health)))
	}
	return g.Wait()
}

func (s *Server) serve(ctx context.Context, g *errgroup.Group, ln net.Listener, h http.Handler) {
	srv := &http.Server{
		Handler: h,
		// What streams sees by its context that the daemon ends; short
		// answers do not look at it and are given to their end.
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(s.cfg.Log.Handler(), slog.LevelDebug),
	}
	g.Go(func() error {
		if err := srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("cannot serve on %s: %w", ln.Addr(), err)
		}
		return nil
	})
	g.Go(func() error {
		<-ctx.Done()
		// The parent is over; what still runs gets a moment of its own.
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		if err := srv.Shutdown(end); err != nil {
			return srv.Close()
		}
		return nil
	})
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

package httpapi

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
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
	// ReadOnlyAddress is host:port of a listener without TLS where everybody may
	// see states and numbers; empty opens none.
	ReadOnlyAddress string
	// Serving is told of each request that may use its route, and its result is
	// called when that was answered; nil tells nobody.
	OnRequest func(Request) (done func())
	// Remote is how to answer over TLS.
	Remote Remote
	Log    *slog.Logger
}

// Server serves the table of routes.
type Server struct {
	cfg    Config
	routes []Route
	remote *remote
	// patience is closeTimeout but for tests.
	shutdownTimeout time.Duration
}

// New makes a server; nothing listens before Listen.
func New(cfg Config, src Sources) *Server {
	r := newRemote(cfg.Remote, cfg.Log)
	src.Kubeconfigs = r
	return &Server{cfg: cfg, routes: observe(Routes(src), cfg.OnRequest), remote: r, shutdownTimeout: closeTimeout}
}

// Listeners are open listeners that Serve takes over.
type Listeners struct {
	socket, health, readOnly net.Listener
	tls                      []tlsListener
}

// Close closes what was opened, for callers that never reach Serve.
func (l *Listeners) Close() {
	for _, ln := range []net.Listener{l.socket, l.health, l.readOnly} {
		if ln != nil {
			_ = ln.Close()
		}
	}
	for _, d := range l.tls {
		_ = d.Close()
	}
}

// Listen opens the configured listeners, so that a taken port or socket is an
// error at start and not a line in a log.
func (s *Server) Listen(ctx context.Context) (*Listeners, error) {
	l := &Listeners{}
	var err error
	if s.cfg.Socket != "" {
		if l.socket, err = listenUnix(ctx, s.cfg.Socket); err != nil {
			return nil, err
		}
	}
	if s.cfg.HealthAddress != "" {
		if l.health, err = listenTCP(ctx, s.cfg.HealthAddress, "health port", "--healthz-port"); err != nil {
			l.Close()
			return nil, err
		}
	}
	if s.cfg.ReadOnlyAddress != "" {
		if l.readOnly, err = listenTCP(ctx, s.cfg.ReadOnlyAddress, "read-only port", "--read-only-port"); err != nil {
			l.Close()
			return nil, err
		}
	}
	if l.tls, err = s.remote.listen(ctx); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// Serve answers on the listeners until ctx ends, then lets running requests
// end for a few seconds.
func (s *Server) Serve(ctx context.Context, l *Listeners) error {
	g, ctx := errgroup.WithContext(ctx)
	if l.socket != nil {
		// The mode of the socket's file is the permission.
		s.serve(ctx, g, l.socket, nil, handler(s.routes, access.All, socketCaller))
	}
	if l.health != nil {
		s.serve(ctx, g, l.health, nil, handler(s.routes, access.Health, anonymous(access.Health)))
	}
	if l.readOnly != nil {
		shown := access.Health | access.Metrics | access.Read
		s.serve(ctx, g, l.readOnly, nil, handler(s.routes, shown, anonymous(shown)))
	}
	for _, d := range l.tls {
		s.remote.listeners <- d
	}
	g.Go(func() error { return s.serveRemote(ctx, g) })
	return g.Wait()
}

func socketCaller(*http.Request) (access.Caller, error) {
	return access.Caller{User: "owner of the socket", Classes: access.All, Local: true}, nil
}

// serveRemote answers over TLS on each door that is opened, until ctx ends.
func (s *Server) serveRemote(ctx context.Context, g *errgroup.Group) error {
	defer s.remote.stop()
	h := s.remote.revocable(handler(s.remote.routes(s.routes), access.All, s.remote.authenticate))
	for {
		select {
		case <-ctx.Done():
			return nil
		case d := <-s.remote.listeners:
			open, end := context.WithCancel(ctx)
			s.serve(open, g, d.Listener, s.remote.tls(), h)
			g.Go(func() error {
				defer end()
				select {
				case <-ctx.Done():
				case <-d.revoked:
				}
				return nil
			})
		}
	}
}

// serve answers on a listener until ctx ends; without a configuration of TLS in
// the clear.
func (s *Server) serve(ctx context.Context, g *errgroup.Group, ln net.Listener, secure *tls.Config, h http.Handler) {
	var running sync.WaitGroup
	srv := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			running.Add(1)
			defer running.Done()
			h.ServeHTTP(w, r)
		}),
		// What streams sees by its context that the daemon ends; short
		// answers do not look at it and are given to their end.
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(s.cfg.Log.Handler(), slog.LevelDebug),
		TLSConfig:         secure,
	}
	ln = limitConnections(ln)
	g.Go(func() error {
		var err error
		if secure == nil {
			err = srv.Serve(ln)
		} else {
			err = srv.ServeTLS(ln, "", "")
		}
		if !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("cannot serve on %s: %w", ln.Addr(), err)
		}
		return nil
	})
	g.Go(func() error {
		<-ctx.Done()
		// The parent is over; what still runs gets a moment of its own.
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.shutdownTimeout)
		defer cancel()
		if err := srv.Shutdown(end); err != nil {
			return srv.Close()
		}
		// Sessions have left the server's hands; they tell their clients.
		over := make(chan struct{})
		go func() {
			running.Wait()
			close(over)
		}()
		select {
		case <-over:
		case <-end.Done():
		}
		return nil
	})
}

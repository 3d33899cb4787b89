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

// The limits of every listener. They keep a slow or hostile client from holding memory or
// connections for long. Responses are small enough for writeTimeout; streams, such as logs,
// have limits of their own.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 30 * time.Second
	writeTimeout      = 60 * time.Second
	idleTimeout       = 90 * time.Second
	maxHeaderBytes    = 64 << 10
	closeTimeout      = 5 * time.Second
	// maxFrameSize is the maximum size in bytes of an HTTP/2 frame: a client that sends a part
	// of one holds as much memory. maxStreams is the maximum number of concurrent requests of
	// one HTTP/2 connection.
	maxFrameSize = 16 << 10
	maxStreams   = 100
)

// Config configures the listeners.
type Config struct {
	// Socket is the path of the unix socket; empty opens none.
	Socket string
	// HealthAddress is host:port of the health listener; empty opens none.
	HealthAddress string
	// ReadOnlyAddress is host:port of a listener without TLS or authentication for the
	// classes health, metrics and read; empty opens none.
	ReadOnlyAddress string
	// OnRequest is called for each request that is authorized. The function that it returns
	// is called when the request was served; nil observes nothing.
	OnRequest func(Request) (done func())
	// OnListener is called when a listener cannot be opened, and with a nil error when it was
	// opened later; nil observes nothing.
	OnListener func(what string, err error)
	// Remote configures the TLS listeners.
	Remote Remote
	Log    *slog.Logger
}

// Server serves the table of routes on all listeners.
type Server struct {
	cfg    Config
	routes []Route
	remote *remote
	// shutdownTimeout is closeTimeout; tests shorten it.
	shutdownTimeout time.Duration
	// tlsLimits are the limits of each TLS listener; tests lower them.
	tlsLimits connectionLimits
}

// New returns a server. It opens nothing before Listen.
func New(cfg Config, src Sources) *Server {
	r := newRemote(cfg.Remote, cfg.Log)
	src.kubeconfigs = r
	return &Server{cfg: cfg, routes: audit(observe(Routes(src), cfg.OnRequest), cfg.Log), remote: r,
		shutdownTimeout: closeTimeout, tlsLimits: newConnectionLimits(true, true)}
}

// Listeners are the listeners that Serve takes over.
type Listeners struct {
	plain []*plainListener
	tls   []tlsListener
	// tlsErr is why the port with TLS is not open yet, nil if it is or is not configured.
	tlsErr error
	// savedErr is why the port of existing kubeconfigs is not open yet, nil if it is or there are none.
	savedErr error
}

// plainListener is a listener without TLS.
type plainListener struct {
	what    string
	open    func(context.Context) (net.Listener, error)
	limits  connectionLimits
	handler http.Handler
	// ln is nil while it cannot be opened, for the reason err.
	ln  net.Listener
	err error
}

// Close closes the listeners, for callers that do not reach Serve.
func (l *Listeners) Close() {
	for _, p := range l.plain {
		if p.ln != nil {
			_ = p.ln.Close()
		}
	}
	for _, ln := range l.tls {
		_ = ln.Close()
	}
}

// Listen opens the configured listeners. A wrong setting is an error. A port that is in use,
// or a disk that takes no socket or key, is not: pods do not depend on listeners, and Serve
// opens it as soon as that is possible.
func (s *Server) Listen(ctx context.Context) (*Listeners, error) {
	l := &Listeners{plain: s.plainListeners()}
	for _, p := range l.plain {
		if p.ln, p.err = p.open(ctx); p.err != nil && !canRetry(p.err) {
			l.Close()
			return nil, p.err
		}
	}
	l.tls, l.tlsErr, l.savedErr = s.remote.listen(ctx)
	if l.tlsErr != nil && !canRetry(l.tlsErr) {
		l.Close()
		return nil, l.tlsErr
	}
	return l, nil
}

// plainListeners returns the configured listeners without TLS, closed.
func (s *Server) plainListeners() (list []*plainListener) {
	if path := s.cfg.Socket; path != "" {
		list = append(list, &plainListener{
			what:   "--api-socket " + path,
			open:   func(ctx context.Context) (net.Listener, error) { return listenUnix(ctx, path) },
			limits: newConnectionLimits(false, false),
			// The mode of the socket file is the permission.
			handler: sameSite(s.cfg.Remote.Names, s.withNodeProxy(handler(s.routes, access.All, socketCaller))),
		})
	}
	if address := s.cfg.HealthAddress; address != "" {
		list = append(list, &plainListener{
			what: "health port " + address,
			open: func(ctx context.Context) (net.Listener, error) {
				return listenTCP(ctx, address, "health port", "--healthz-port")
			},
			limits: newConnectionLimits(true, false),
			// Load balancers probe with any Host header, and this listener has nothing to hide.
			handler: handler(s.routes, access.Health, anonymous(access.Health)),
		})
	}
	if address := s.cfg.ReadOnlyAddress; address != "" {
		readOnly := access.Health | access.Metrics | access.Read
		list = append(list, &plainListener{
			what: "read-only port " + address,
			open: func(ctx context.Context) (net.Listener, error) {
				return listenTCP(ctx, address, "read-only port", "--read-only-port")
			},
			limits:  newConnectionLimits(true, false),
			handler: sameSite(s.cfg.Remote.Names, s.withNodeProxy(handler(s.routes, readOnly, anonymous(readOnly)))),
		})
	}
	return list
}

func (s *Server) withNodeProxy(h http.Handler) http.Handler { return nodeProxy(s.cfg.Remote.Node, h) }

// Serve responds on the listeners until ctx ends, then waits a few seconds for requests in
// progress.
func (s *Server) Serve(ctx context.Context, l *Listeners) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, p := range l.plain {
		g.Go(func() error {
			if p.ln == nil {
				s.retry(ctx, p.what, p.err, func() (err error) {
					p.ln, err = p.open(ctx)
					return err
				})
			}
			if p.ln != nil {
				s.serve(ctx, g, limitConnections(p.ln, p.limits), nil, p.handler)
			}
			return nil
		})
	}
	for _, ln := range l.tls {
		s.remote.listeners <- ln
	}
	if l.tlsErr != nil {
		g.Go(func() error {
			s.retry(ctx, "port "+s.cfg.Remote.Address, l.tlsErr, func() error { return s.remote.openMain(ctx) })
			return nil
		})
	}
	if l.savedErr != nil {
		g.Go(func() error {
			s.retry(ctx, "port of existing kubeconfigs", l.savedErr, func() error { return s.remote.openSaved(ctx) })
			return nil
		})
	}
	g.Go(func() error { return s.serveRemote(ctx, g) })
	return g.Wait()
}

func socketCaller(*http.Request) (access.Caller, error) {
	return access.Caller{User: "owner of the socket", Classes: access.All, Local: true}, nil
}

// serveRemote responds over TLS on each listener that is opened, until ctx ends.
func (s *Server) serveRemote(ctx context.Context, g *errgroup.Group) error {
	defer s.remote.stop()
	table := s.routes
	if s.cfg.Remote.DisableDebugging {
		table = withoutDebugging(table)
	}
	h := s.remote.requests.track(s.withNodeProxy(handler(table, access.All, s.remote.authenticate)))
	g.Go(func() error {
		s.remote.watchCredentials(ctx)
		return nil
	})
	for {
		select {
		case <-ctx.Done():
			return nil
		case ln := <-s.remote.listeners:
			serving, cancel := context.WithCancel(ctx)
			s.serve(serving, g, limitConnections(ln.Listener, s.tlsLimits), s.remote.tls(), h)
			g.Go(func() error {
				defer cancel()
				select {
				case <-ctx.Done():
				case <-ln.revoked:
				}
				return nil
			})
		}
	}
}

// serve responds on a listener until ctx ends. A nil tlsConfig serves plain HTTP.
func (s *Server) serve(ctx context.Context, g *errgroup.Group, ln net.Listener, tlsConfig *tls.Config, h http.Handler) {
	var running sync.WaitGroup
	srv := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			running.Add(1)
			defer running.Done()
			h.ServeHTTP(w, r)
		}),
		// Streams notice the shutdown by this context. Short responses ignore it and are
		// completed.
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnContext:       withConnection,
		HTTP2:             &http.HTTP2Config{MaxReadFrameSize: maxFrameSize, MaxConcurrentStreams: maxStreams},
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(s.cfg.Log.Handler(), slog.LevelDebug),
		TLSConfig:         tlsConfig,
	}
	g.Go(func() error {
		var err error
		if tlsConfig == nil {
			err = srv.Serve(ln)
		} else {
			err = srv.ServeTLS(ln, "", "")
		}
		if !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("failed to serve on %s: %w", ln.Addr(), err)
		}
		return nil
	})
	g.Go(func() error {
		<-ctx.Done()
		// Requests in progress get some more time.
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.shutdownTimeout)
		defer cancel()
		if err := srv.Shutdown(grace); err != nil {
			return srv.Close()
		}
		// The server does not know hijacked connections. Their sessions send their clients
		// a final status.
		done := make(chan struct{})
		go func() {
			running.Wait()
			close(done)
		}()
		select {
		case <-done:
		case <-grace.Done():
		}
		return nil
	})
}

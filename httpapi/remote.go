package httpapi

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"sync"

	"github.com/podstead/podstead/httpapi/access"
	"github.com/podstead/podstead/httpapi/pki"
)

// Remote says how to answer clients that cannot use the socket. Every one of
// them proves who he is.
type Remote struct {
	// Address is host:port; empty opens no port before somebody asks for a
	// kubeconfig.
	Address string
	// Folder keeps the own certificates, and where kubeconfigs lead.
	Dir string
	// Node is the node's name, for those who have kubeconfigs of several.
	Node string
	// CertFile and KeyFile are the serving certificate for other machines; both
	// are empty for one of our own.
	CertFile, KeyFile string
	// ClientCAFile and TokenFile let clients in beside those with kubeconfigs;
	// empty for none.
	ClientCAFile, TokenFile string
	// Reviews asks a cluster about those who are not known here.
	Reviews access.ReviewConfig
	// Signed is the serving certificate that a cluster has signed, nil while there
	// is none; the field is nil if there never is one.
	Signed func() *tls.Certificate
	// MinVersion and CipherSuites are those of crypto/tls; zero is TLS 1.2 and
	// Go's own choice.
	MinVersion   uint16
	CipherSuites []uint16
	// Names and Addresses are what clients call this box by.
	Names     func() []string
	Addresses func() []netip.Addr
	// NoDebugging serves no logs, profiles or checkpoints, and lets nobody into
	// a container.
	DisableDebugging bool
}

// door is an open listener for TLS; shut is closed when it is to end before the
// server does, nil if that never happens.
type tlsListener struct {
	net.Listener
	revoked chan struct{}
}

// remote is the part of the server that speaks TLS. Until there is a door it has
// neither keys nor certificates.
type remote struct {
	cfg       Remote
	log       *slog.Logger
	listeners chan tlsListener
	// ended is closed when no more doors are served.
	stopped chan struct{}
	// preferred is the port to which kubeconfigs lead if it is free.
	preferredPort int
	// allowed finds out who asks. It is set when the keys are opened.
	authenticator access.Authenticator

	mu       sync.Mutex
	serverCA *pki.Authority
	clientCA *pki.Authority
	serving  *pki.Serving
	// main is where the port listens that the flags ask for, loopback where
	// kubeconfigs lead if not there; nil while not open.
	mainAddr *net.TCPAddr
	loopback *tlsListener
	// certified end the requests under way of those with certificates.
	certRequests map[*http.Request]context.CancelFunc
}

func newRemote(cfg Remote, log *slog.Logger) *remote {
	// Two are opened at start, one at a time later.
	return &remote{cfg: cfg, log: log, listeners: make(chan tlsListener, 3), stopped: make(chan struct{}), preferredPort: kubeletPort, certRequests: map[*http.Request]context.CancelFunc{}}
}

// listen opens the port that the flags ask for, and the one that kubeconfigs of
// an earlier life lead to.
func (m *remote) listen(ctx context.Context) (doors []tlsListener, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cfg.Address != "" {
		if err := m.openKeys(); err != nil {
			return nil, err
		}
		ln, err := listenTCP(ctx, m.cfg.Address, "port", "--port")
		if err != nil {
			return nil, err
		}
		m.mainAddr = ln.Addr().(*net.TCPAddr)
		doors = append(doors, tlsListener{Listener: ln})
	}
	if kept := m.savedLoopback(); kept != "" && !m.mainServes(kept) {
		// Nobody's pods wait for this port: whoever needs it asks again.
		err := m.openKeys()
		if err == nil {
			err = m.openLoopback(ctx, kept)
		}
		if err != nil {
			m.log.Warn("kubeconfigs made so far do not work; podstead kubeconfig makes others", "address", kept, "error", err)
		} else {
			doors = append(doors, *m.loopback)
		}
	}
	return doors, nil
}

// open reads or makes keys and certificates. The caller holds mu.
func (m *remote) openKeys() (err error) {
	if m.serving != nil {
		return nil
	}
	if m.serverCA, err = pki.OpenAuthority(m.cfg.Dir, "servers"); err != nil {
		return err
	}
	if m.clientCA, err = pki.OpenAuthority(m.cfg.Dir, "clients"); err != nil {
		return err
	}
	allowed := access.Authenticator{Authorities: []access.Authority{{Pool: m.clientPool}}, Reviews: access.NewReviews(m.cfg.Reviews)}
	if m.cfg.ClientCAFile != "" {
		file, err := access.OpenCAFile(m.cfg.ClientCAFile)
		if err != nil {
			return err
		}
		allowed.Authorities = append(allowed.Authorities, access.Authority{Pool: file.Pool, External: true})
	}
	if m.cfg.TokenFile != "" {
		if allowed.Tokens, err = access.OpenTokenFile(m.cfg.TokenFile, m.log); err != nil {
			return err
		}
	}
	serving, err := pki.NewServing(pki.ServingConfig{
		Dir: m.cfg.Dir, Authority: m.serverCA, Names: m.cfg.Names, Addresses: m.cfg.Addresses,
		CertFile: m.cfg.CertFile, KeyFile: m.cfg.KeyFile, Signed: m.cfg.Signed,
	})
	if err != nil {
		return err
	}
	m.authenticator, m.serving = allowed, serving
	return nil
}

// clientPool is the authority of kubeconfigs as of now.
func (m *remote) clientPool() (*x509.CertPool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.clientCA == nil {
		return nil, errors.New("no kubeconfig was made")
	}
	return m.clientCA.Pool(), nil
}

// caller finds out who sent a request.
func (m *remote) authenticate(r *http.Request) (access.Caller, error) {
	return m.authenticator.Caller(r)
}

// revocable ends watches and sessions of those with certificates when
// kubeconfigs are revoked. Whom another authority has certified begins anew.
func (m *remote) revocable(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
			h.ServeHTTP(w, r)
			return
		}
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		// Before the caller is judged, so that no revocation falls between.
		m.mu.Lock()
		m.certRequests[r] = cancel
		m.mu.Unlock()
		defer func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			delete(m.certRequests, r)
		}()
		h.ServeHTTP(w, r.WithContext(ctx))
	})
}

// tls is how each door speaks. Client certificates are judged with each
// request, not in the handshake: the client then learns what is wrong with his,
// and one that expires on an open connection counts no more.
func (m *remote) tls() *tls.Config {
	return &tls.Config{
		GetCertificate: m.serving.Certificate,
		ClientAuth:     tls.RequestClientCert,
		MinVersion:     max(m.cfg.MinVersion, tls.VersionTLS12),
		CipherSuites:   m.cfg.CipherSuites,
	}
}

// debugging are the paths that the kubelet takes for debugging beside logs and
// sessions, and /checkpoint, whose files hold what a container has in memory.
var debugging = map[string]bool{
	"/logs/": true, "/runningpods/{$}": true, "/debug/pprof/": true, "/checkpoint/{namespace}/{pod}/{container}": true,
}

// routes is the table as it is served over TLS.
func (m *remote) routes(all []Route) []Route {
	if !m.cfg.DisableDebugging {
		return all
	}
	less := make([]Route, 0, len(all))
	for _, r := range all {
		if r.Access&(access.Logs|access.Exec) != 0 || debugging[r.Path] {
			r.Access = access.Health
			r.Handle = func(w http.ResponseWriter, _ *http.Request) {
				http.Error(w, "Debug endpoints are disabled.", http.StatusMethodNotAllowed)
			}
		}
		less = append(less, r)
	}
	return less
}

// mainIs says whether a loopback address is served by the port of the flags.
func (m *remote) mainServes(address string) bool {
	want, err := netip.ParseAddrPort(address)
	return err == nil && m.mainAddr != nil && m.mainAddr.Port == int(want.Port()) && m.mainOnLoopback()
}

func (m *remote) mainOnLoopback() bool {
	return m.mainAddr != nil && (m.mainAddr.IP.IsUnspecified() || m.mainAddr.IP.Equal(net.IPv4(127, 0, 0, 1)))
}

// The name of the file in Folder that keeps where kubeconfigs lead.
const loopbackFile = "kubeconfig-address"

func (m *remote) loopbackPath() string { return filepath.Join(m.cfg.Dir, loopbackFile) }

// openLoopback opens an address. The caller holds mu.
func (m *remote) openLoopback(ctx context.Context, address string) error {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("cannot open %s: %w", address, err)
	}
	m.loopback = &tlsListener{Listener: ln, revoked: make(chan struct{})}
	return nil
}

// end closes the doors that nobody answers on yet, and lets no more be opened.
func (m *remote) stop() {
	// Before mu is taken: who holds it may be handing over a door.
	close(m.stopped)
	m.mu.Lock()
	defer m.mu.Unlock()
	for {
		select {
		case d := <-m.listeners:
			_ = d.Close()
		default:
			return
		}
	}
}

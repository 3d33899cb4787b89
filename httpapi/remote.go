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
	"strings"
	"sync"

	"github.com/podstead/podstead/httpapi/access"
	"github.com/podstead/podstead/httpapi/pki"
	"github.com/podstead/podstead/internal/statefile"
)

// Remote configures the listeners for clients that cannot use the socket. All of them
// must authenticate.
type Remote struct {
	// Address is host:port; if it is empty, no port is opened before a kubeconfig is
	// requested.
	Address string
	// Dir is the directory of podstead's own certificates and keys.
	Dir string
	// Node is the name of the node. It tells kubeconfigs of several nodes apart.
	Node string
	// CertFile and KeyFile are the serving certificate for clients on other hosts; if both
	// are empty, podstead issues one itself.
	CertFile, KeyFile string
	// ClientCAFile and TokenFile authenticate clients in addition to kubeconfigs; empty
	// for none.
	ClientCAFile, TokenFile string
	// Reviews lets a cluster authenticate and authorize clients that are unknown here.
	Reviews access.ReviewConfig
	// Signed returns the serving certificate that a cluster has signed, nil while there is
	// none. The field is nil if there never is one.
	Signed func() *tls.Certificate
	// MinVersion and CipherSuites are those of crypto/tls; zero values mean TLS 1.2 and
	// Go's default.
	MinVersion   uint16
	CipherSuites []uint16
	// Names and Addresses are those of this node in its serving certificate.
	Names     func() []string
	Addresses func() []netip.Addr
	// DisableDebugging disables the endpoints for logs, sessions, profiles and checkpoints.
	DisableDebugging bool
	// Disk is where the files of Dir are stored.
	Disk statefile.Disk
}

// tlsListener is an open TLS listener. revoked is closed to close it before the server
// stops; nil means never.
type tlsListener struct {
	net.Listener
	revoked chan struct{}
}

// remote is the part of the server that serves TLS. It has no keys and certificates before
// the first listener is opened.
type remote struct {
	cfg       Remote
	log       *slog.Logger
	listeners chan tlsListener
	// stopped is closed when no more listeners are served.
	stopped chan struct{}
	// preferredPort is the port for kubeconfigs if it is free.
	preferredPort int
	// authenticator is set when the keys are opened.
	authenticator access.Authenticator

	mu       sync.Mutex
	serverCA *pki.Authority
	clientCA *pki.Authority
	serving  *pki.Serving
	// mainAddr is the address of the port of the flags, loopback the additional listener
	// for kubeconfigs; nil while closed.
	mainAddr *net.TCPAddr
	loopback *tlsListener
	// revoked are the IDs of revoked kubeconfigs; nil while they are unknown.
	revoked map[string]bool
	files   remoteFiles
	// requests are those in progress.
	requests *openRequests
}

// remoteFiles are the files of remote in Remote.Dir, but for keys and certificates.
type remoteFiles struct {
	revoked *statefile.File[map[string]bool]
	// loopback has the loopback address in kubeconfigs.
	loopback *statefile.File[netip.AddrPort]
}

func newRemote(cfg Remote, log *slog.Logger) *remote {
	m := &remote{
		cfg: cfg, log: log, stopped: make(chan struct{}), preferredPort: kubeletPort,
		files: remoteFiles{revoked: revokedFormat.File(filepath.Join(cfg.Dir, "revoked-kubeconfigs"), cfg.Disk),
			loopback: loopbackFormat.File(filepath.Join(cfg.Dir, loopbackFile), cfg.Disk)},
		listeners: make(chan tlsListener, 3), // two are opened at startup, one at a time later
	}
	m.requests = &openRequests{all: map[*openRequest]struct{}{}, recheck: func(r *http.Request, c access.Caller) error {
		return m.authenticator.Recheck(r, certificatesOf(r), c)
	}}
	return m
}

// listen opens the port of the flags, and the one in kubeconfigs that were issued before
// the last restart. With an error for which canRetry is true it returns what was opened, and the
// error of each of the two.
func (m *remote) listen(ctx context.Context) (opened []tlsListener, mainErr, savedErr error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cfg.Address != "" {
		var ln *tlsListener
		if ln, mainErr = m.listenMain(ctx); mainErr == nil {
			opened = append(opened, *ln)
		} else if !canRetry(mainErr) {
			return nil, mainErr, nil
		}
	}
	ln, err := m.listenSaved(ctx)
	switch {
	case ln != nil:
		opened = append(opened, *ln)
	case err != nil && !canRetry(err):
		// Not fatal: pods do not depend on this port.
		m.log.Warn("Failed to open the port of existing kubeconfigs; create new ones with podstead kubeconfig", "address",
			m.savedLoopback(), "err", err)
	case err != nil:
		savedErr = err
	}
	return opened, mainErr, savedErr
}

// listenSaved opens the port of existing kubeconfigs. It returns nil if there are none, or if it is
// open. The caller holds mu.
func (m *remote) listenSaved(ctx context.Context) (*tlsListener, error) {
	saved := m.savedLoopback()
	if saved == "" || m.loopback != nil || m.mainServes(saved) {
		return nil, nil
	}
	if err := m.openKeys(); err != nil {
		return nil, err
	}
	if err := m.openLoopback(ctx, saved); err != nil {
		return nil, err
	}
	return m.loopback, nil
}

// openSaved opens and serves the port of existing kubeconfigs, which was not possible at startup.
func (m *remote) openSaved(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	ln, err := m.listenSaved(ctx)
	if ln == nil {
		return err
	}
	m.serveLater(ln)
	return nil
}

// serveLater has a listener served, unless none is served any more. The caller holds mu.
func (m *remote) serveLater(ln *tlsListener) {
	select {
	case <-m.stopped:
		_ = ln.Close()
	case m.listeners <- *ln:
	}
}

// listenMain opens the port of the flags. The caller holds mu.
func (m *remote) listenMain(ctx context.Context) (*tlsListener, error) {
	if err := m.openKeys(); err != nil {
		return nil, err
	}
	ln, err := listenTCP(ctx, m.cfg.Address, "port", "--port")
	if err != nil {
		return nil, err
	}
	m.mainAddr = ln.Addr().(*net.TCPAddr)
	return &tlsListener{Listener: ln}, nil
}

// openMain opens and serves the port of the flags, which was not possible at startup.
func (m *remote) openMain(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	ln, err := m.listenMain(ctx)
	if err != nil {
		return err
	}
	m.serveLater(ln)
	return nil
}

// openKeys loads or creates the keys and certificates. The caller holds mu.
func (m *remote) openKeys() (err error) {
	if m.serving != nil {
		return nil
	}
	if m.serverCA, err = pki.OpenAuthority(m.cfg.Dir, "servers", m.cfg.Disk); err != nil {
		return err
	}
	if m.clientCA, err = pki.OpenAuthority(m.cfg.Dir, "clients", m.cfg.Disk); err != nil {
		return err
	}
	if err := m.loadRevoked(); err != nil {
		m.log.Error("Failed to read the revoked kubeconfigs, rejecting all kubeconfigs; podstead kubeconfig --revoke makes "+
			"new ones possible", "err", err)
	}
	authenticator := access.Authenticator{Authorities: []access.Authority{{Pool: m.clientPool, Revoked: m.isRevoked}},
		Reviews: access.NewReviews(m.cfg.Reviews)}
	if m.cfg.ClientCAFile != "" {
		file, err := access.OpenCAFile(m.cfg.ClientCAFile)
		if err != nil {
			return err
		}
		authenticator.Authorities = append(authenticator.Authorities, access.Authority{Pool: file.Pool, External: true})
	}
	if m.cfg.TokenFile != "" {
		if authenticator.Tokens, err = access.OpenTokenFile(m.cfg.TokenFile, m.log); err != nil {
			return err
		}
	}
	serving, err := pki.NewServing(pki.ServingConfig{
		Dir: m.cfg.Dir, Authority: m.serverCA, Names: m.cfg.Names, Addresses: m.cfg.Addresses,
		CertFile: m.cfg.CertFile, KeyFile: m.cfg.KeyFile, Signed: m.cfg.Signed, Disk: m.cfg.Disk, Log: m.log,
	})
	if err != nil {
		return err
	}
	m.authenticator, m.serving = authenticator, serving
	return nil
}

// clientPool returns the CA that signs kubeconfigs now.
func (m *remote) clientPool() (*x509.CertPool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.clientCA == nil {
		return nil, errors.New("no kubeconfig was issued")
	}
	return m.clientCA.Pool(), nil
}

// authenticate returns the caller of a request. From then on its connection counts as
// authenticated.
func (m *remote) authenticate(r *http.Request) (access.Caller, error) {
	caller, err := m.requests.authenticate(r, func(r *http.Request) (access.Caller, error) {
		return m.authenticator.Caller(r, certificatesOf(r))
	})
	if c := connectionFrom(r.Context()); c != nil && err == nil {
		c.limited.authenticated()
	}
	return caller, err
}

// certificatesOf returns what was verified about the connection of a request.
func certificatesOf(r *http.Request) *access.Connection {
	if c := connectionFrom(r.Context()); c != nil {
		return &c.certificates
	}
	return nil
}

// watchCredentials ends watches and sessions when their credentials are removed from the
// files, until ctx ends.
func (m *remote) watchCredentials(ctx context.Context) {
	var paths []string
	for _, path := range []string{m.cfg.TokenFile, m.cfg.ClientCAFile} {
		if path != "" {
			paths = append(paths, path)
		}
	}
	if paths != nil {
		access.WatchFiles(ctx, m.log, m.requests.Recheck, paths...)
	}
}

// tls returns the configuration of all TLS listeners. Client certificates are verified
// with each request and not in the handshake: so the client gets an error that reports what
// is wrong, and a certificate that expires on an open connection is rejected.
func (m *remote) tls() *tls.Config {
	return &tls.Config{
		GetCertificate: m.serving.Certificate,
		ClientAuth:     tls.RequestClientCert,
		MinVersion:     max(m.cfg.MinVersion, tls.VersionTLS12),
		CipherSuites:   m.cfg.CipherSuites,
	}
}

// mainServes reports whether the port of the flags serves a loopback address.
func (m *remote) mainServes(address string) bool {
	want, err := netip.ParseAddrPort(address)
	return err == nil && m.mainAddr != nil && m.mainAddr.Port == int(want.Port()) && m.mainOnLoopback()
}

func (m *remote) mainOnLoopback() bool {
	return m.mainAddr != nil && (m.mainAddr.IP.IsUnspecified() || m.mainAddr.IP.Equal(net.IPv4(127, 0, 0, 1)))
}

// loopbackFile is the file in Remote.Dir with the loopback address in kubeconfigs.
const loopbackFile = "kubeconfig-address"

// loopbackFormat is that file. Only a loopback address is accepted.
var loopbackFormat = statefile.Format[netip.AddrPort]{
	Name: "pki/kubeconfig-address", Limit: 256, Damaged: statefile.MoveAside, DirMode: 0o700,
	Encode: func(a netip.AddrPort) ([]byte, error) { return []byte(a.String() + "\n"), nil },
	Decode: func(text []byte) (netip.AddrPort, error) { return netip.ParseAddrPort(strings.TrimSpace(string(text))) },
	Check: func(a *netip.AddrPort) error {
		if !a.Addr().IsLoopback() || a.Port() == 0 {
			return fmt.Errorf("%s is no loopback address with a port", a)
		}
		return nil
	},
}

// openLoopback listens on an address. The caller holds mu.
func (m *remote) openLoopback(ctx context.Context, address string) error {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("failed to listen on %s: %w", address, err)
	}
	m.loopback = &tlsListener{Listener: ln, revoked: make(chan struct{})}
	return nil
}

// stop closes the listeners that are not served yet, and prevents new ones.
func (m *remote) stop() {
	// Closed before mu is locked: its holder may be sending a listener.
	close(m.stopped)
	m.mu.Lock()
	defer m.mu.Unlock()
	for {
		select {
		case ln := <-m.listeners:
			_ = ln.Close()
		default:
			return
		}
	}
}

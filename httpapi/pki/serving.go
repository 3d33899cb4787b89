package pki

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

const (
	// servingLife is how long a serving certificate is good, and renewAt how
	// much of that is left when it is replaced.
	servingLife = 365 * 24 * time.Hour
	renewAt     = servingLife / 3
)

// ServingConfig is what a serving certificate is made of.
type ServingConfig struct {
	// Dir is the folder of own certificates.
	Dir string
	// Authority signs them.
	Authority *Authority
	// Names and Addresses are what clients may call this box by. They are
	// asked when somebody connects.
	Names     func() []string
	Addresses func() []netip.Addr
	// CertFile and KeyFile are a pair that somebody else keeps, used for
	// clients of other machines; both are empty for none.
	CertFile, KeyFile string
	// Signed is one that somebody else has signed for other machines, nil while
	// there is none; the field may be nil.
	Signed func() *tls.Certificate
}

// Serving gives the certificate for a connection. It renews its own, and reads
// files again that have changed, when somebody connects; while nobody does it
// does nothing.
type Serving struct {
	cfg ServingConfig

	mu    sync.Mutex
	own   *tls.Certificate
	given *tls.Certificate
	// stamp is what the files looked like that given was read from.
	stamp [2]stamp
}

// stamp tells one state of a file from another.
type stamp struct {
	changed time.Time
	size    int64
}

// NewServing reads the certificate files, so that a fault is told at start. An
// own certificate is made when somebody connects.
func NewServing(cfg ServingConfig) (*Serving, error) {
	s := &Serving{cfg: cfg}
	if cfg.CertFile == "" {
		return s, nil
	}
	_, err := s.fromFiles()
	return s, err
}

// Certificate is for tls.Config.GetCertificate. Who connects over loopback gets
// podstead's own: that is where kubeconfigs lead, which trust its authority,
// and a certificate from elsewhere does not name 127.0.0.1.
func (s *Serving) Certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cfg.CertFile != "" && !loopback(hello) {
		return s.fromFiles()
	}
	if s.cfg.Signed != nil && !loopback(hello) {
		if signed := s.cfg.Signed(); signed != nil && time.Now().Before(signed.Leaf.NotAfter) {
			return signed, nil
		}
	}
	return s.ownCertificate(time.Now())
}

func loopback(hello *tls.ClientHelloInfo) bool {
	if hello == nil || hello.Conn == nil {
		return false
	}
	addr, ok := hello.Conn.LocalAddr().(*net.TCPAddr)
	return ok && addr.IP.IsLoopback()
}

// fromFiles is the given pair. A pair that cannot be read any more does not
// take the place of one that could.
func (s *Serving) fromFiles() (*tls.Certificate, error) {
	var now [2]stamp
	for i, path := range []string{s.cfg.CertFile, s.cfg.KeyFile} {
		if fi, err := os.Stat(path); err == nil {
			now[i] = stamp{fi.ModTime(), fi.Size()}
		}
	}
	if s.given != nil && now == s.stamp {
		return s.given, nil
	}
	pair, err := tls.LoadX509KeyPair(s.cfg.CertFile, s.cfg.KeyFile)
	if err != nil {
		if s.given != nil {
			return s.given, nil
		}
		return nil, fmt.Errorf("cannot use --tls-cert-file %s with --tls-private-key-file %s: %w", s.cfg.CertFile, s.cfg.KeyFile, err)
	}
	s.given, s.stamp = &pair, now
	return s.given, nil
}

// ownCertificate is the one in memory, that of an earlier life of the daemon, or
// a new one, whichever is first to name this box as it is called now.
func (s *Serving) ownCertificate(now time.Time) (*tls.Certificate, error) {
	names, addresses := s.names()
	if s.own != nil && fresh(s.own.Leaf, now, names, addresses) {
		return s.own, nil
	}
	if s.own == nil {
		kept, err := s.kept()
		if err != nil {
			return nil, err
		}
		if kept != nil && kept.Leaf.CheckSignatureFrom(s.cfg.Authority.cert) == nil && fresh(kept.Leaf, now, names, addresses) {
			s.own = kept
			return kept, nil
		}
	}
	made, err := s.make(now, names, addresses)
	if err != nil {
		return nil, err
	}
	s.own = made
	return made, nil
}

// kept is the certificate in the folder, nil if there is none that can be used.
func (s *Serving) kept() (*tls.Certificate, error) {
	keyPEM, err := readPrivate(filepath.Join(s.cfg.Dir, "server.key"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	certPEM, err := os.ReadFile(filepath.Join(s.cfg.Dir, "server.crt"))
	if err != nil {
		return nil, nil
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, nil // what cannot be used is replaced
	}
	return &pair, nil
}

func (s *Serving) make(now time.Time, names []string, addresses []net.IP) (*tls.Certificate, error) {
	certPEM, keyPEM, err := s.cfg.Authority.sign(&x509.Certificate{
		Subject:  pkix.Name{CommonName: "podstead"},
		DNSNames: names, IPAddresses: addresses,
		NotBefore: now.Add(-skew), NotAfter: now.Add(servingLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return nil, err
	}
	if err := writePair(s.cfg.Dir, "server", certPEM, keyPEM); err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	return &pair, err
}

// names are what the certificate has to name, in a fixed order.
func (s *Serving) names() (names []string, addresses []net.IP) {
	all := []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.IPv6Loopback()}
	if s.cfg.Addresses != nil {
		all = append(all, s.cfg.Addresses()...)
	}
	slices.SortFunc(all, netip.Addr.Compare)
	for _, a := range slices.Compact(all) {
		addresses = append(addresses, a.AsSlice())
	}
	names = []string{"localhost"}
	if s.cfg.Names != nil {
		names = append(names, s.cfg.Names()...)
	}
	slices.Sort(names)
	return slices.Compact(names), addresses
}

// fresh says whether a certificate lasts for a while and names all it should.
func fresh(cert *x509.Certificate, now time.Time, names []string, addresses []net.IP) bool {
	if now.Before(cert.NotBefore) || now.Add(renewAt).After(cert.NotAfter) {
		return false
	}
	for _, name := range names {
		if !slices.Contains(cert.DNSNames, name) {
			return false
		}
	}
	for _, a := range addresses {
		if !slices.ContainsFunc(cert.IPAddresses, a.Equal) {
			return false
		}
	}
	return true
}

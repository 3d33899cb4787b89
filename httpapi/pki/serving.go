package pki

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/podstead/podstead/internal/statefile"
)

const (
	// servingValidity is the validity of a serving certificate. It is renewed when less than
	// renewBefore is left.
	servingValidity = 365 * 24 * time.Hour
	renewBefore     = servingValidity / 3
)

// ServerName is the name in kubeconfigs for other hosts, by which their clients check the certificate
// whatever the address in the URL is: a DNS name, an address behind NAT, or a forwarded port.
// Connections to it get podstead's own certificate, as those over loopback.
const ServerName = "node.podstead.internal"

// ServingConfig configures the serving certificate.
type ServingConfig struct {
	// Dir is the directory of podstead's own certificates.
	Dir string
	// Authority signs podstead's own certificate.
	Authority *Authority
	// Names and Addresses return those of this node. They are called when a client
	// connects.
	Names     func() []string
	Addresses func() []netip.Addr
	// CertFile and KeyFile are a pair that is managed outside of podstead, for clients on
	// other hosts; both are empty for none.
	CertFile, KeyFile string
	// Signed returns a certificate that a cluster has signed, for clients on other hosts,
	// nil while there is none. The field may be nil.
	Signed func() *tls.Certificate
	// Disk is where podstead's own certificate is stored.
	Disk statefile.Disk
	// Log is nil for none.
	Log *slog.Logger
}

// Serving returns the certificate for a connection. It renews podstead's own certificate and
// reloads changed files only when a client connects.
type Serving struct {
	cfg ServingConfig

	mu    sync.Mutex
	own   *tls.Certificate
	given *tls.Certificate
	// stamp is the state of the files from which given was loaded.
	stamp [2]stamp
}

// stamp identifies a version of a file.
type stamp struct {
	changed time.Time
	size    int64
}

// NewServing loads the certificate files, so that an invalid file is an error at startup.
// podstead's own certificate is created when a client connects.
func NewServing(cfg ServingConfig) (*Serving, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	s := &Serving{cfg: cfg}
	if cfg.CertFile == "" {
		return s, nil
	}
	_, err := s.fromFiles()
	return s, err
}

// Certificate implements tls.Config.GetCertificate. Connections over loopback get
// podstead's own certificate: kubeconfigs use loopback and trust podstead's CA, and other
// certificates usually do not include 127.0.0.1. Those for other hosts ask for ServerName.
func (s *Serving) Certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := loopback(hello) || hello != nil && hello.ServerName == ServerName
	if s.cfg.CertFile != "" && !own {
		return s.fromFiles()
	}
	if s.cfg.Signed != nil && !own {
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

// fromFiles returns the pair in the files. If the files become invalid, it keeps the last
// valid pair.
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
		return nil, fmt.Errorf("failed to load --tls-cert-file %s and --tls-private-key-file %s: %w", s.cfg.CertFile,
			s.cfg.KeyFile, err)
	}
	s.given, s.stamp = &pair, now
	return s.given, nil
}

// ownCertificate returns the certificate in memory, the saved one or a new one: the first
// that includes the current names and addresses of this node.
func (s *Serving) ownCertificate(now time.Time) (*tls.Certificate, error) {
	names, addresses := s.names()
	if s.own != nil && fresh(s.own.Leaf, now, names, addresses) {
		return s.own, nil
	}
	if s.own == nil {
		saved, err := s.saved()
		if err != nil {
			return nil, err
		}
		if saved != nil && saved.Leaf.CheckSignatureFrom(s.cfg.Authority.cert) == nil &&
			fresh(saved.Leaf, now, names, addresses) {
			s.own = saved
			return saved, nil
		}
	}
	created, err := s.create(now, names, addresses)
	if err != nil {
		return nil, err
	}
	s.own = created
	return created, nil
}

// files returns the files of podstead's own certificate.
func (s *Serving) files() pair { return pairOf(&servingFormat, s.cfg.Dir, "server", s.cfg.Disk) }

// saved loads the certificate in the directory, nil if there is no usable one.
func (s *Serving) saved() (*tls.Certificate, error) {
	certPEM, keyPEM, err := s.files().load()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case errors.Is(err, statefile.ErrDamaged):
		s.cfg.Log.Warn("Serving certificate cannot be used, replacing it", "err", err)
		return nil, nil
	case err != nil:
		return nil, err
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, nil // unusable: a new one replaces it
	}
	return &pair, nil
}

func (s *Serving) create(now time.Time, names []string, addresses []net.IP) (*tls.Certificate, error) {
	certPEM, keyPEM, err := s.cfg.Authority.sign(&x509.Certificate{
		Subject:  pkix.Name{CommonName: "podstead"},
		DNSNames: names, IPAddresses: addresses,
		NotBefore: now.Add(-clockSkew), NotAfter: now.Add(servingValidity),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return nil, err
	}
	// A certificate that cannot be stored serves until the restart: every connection would
	// fail otherwise.
	files := s.files()
	_ = s.cfg.Disk.Unwritten.Write(files.cert.Path(), func() error { return files.save(certPEM, keyPEM) })
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	return &pair, err
}

// names returns the names and addresses for the certificate, sorted.
func (s *Serving) names() (names []string, addresses []net.IP) {
	all := []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.IPv6Loopback()}
	if s.cfg.Addresses != nil {
		all = append(all, s.cfg.Addresses()...)
	}
	slices.SortFunc(all, netip.Addr.Compare)
	for _, a := range slices.Compact(all) {
		addresses = append(addresses, a.AsSlice())
	}
	names = []string{"localhost", ServerName}
	if s.cfg.Names != nil {
		names = append(names, s.cfg.Names()...)
	}
	slices.Sort(names)
	return slices.Compact(names), addresses
}

// fresh reports whether a certificate need not be renewed and has all names and addresses.
func fresh(cert *x509.Certificate, now time.Time, names []string, addresses []net.IP) bool {
	if now.Before(cert.NotBefore) || now.Add(renewBefore).After(cert.NotAfter) {
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

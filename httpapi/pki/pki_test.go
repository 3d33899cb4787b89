package pki

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podstead/podstead/internal/statefile"
)

func authority(t *testing.T, dir, name string) *Authority {
	t.Helper()
	a, err := OpenAuthority(dir, name, statefile.Disk{})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func parse(t *testing.T, certPEM []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(certPEM)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func TestAuthorityKeyIsPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	first := authority(t, dir, "clients")
	if again := authority(t, dir, "clients"); string(again.PEM()) != string(first.PEM()) {
		t.Error("a new CA was created")
	}
	for path, want := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, "clients.key"): 0o600} {
		if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != want {
			t.Errorf("%s: %v, %v; want %o", path, fi.Mode(), err, want)
		}
	}
	if err := os.Chmod(filepath.Join(dir, "clients.key"), 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenAuthority(dir, "clients", statefile.Disk{}); err == nil ||
		!strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a key that others can read: %v", err)
	}
}

func TestAuthorityWithWrongKeyIsAnError(t *testing.T) {
	dir := t.TempDir()
	authority(t, dir, "clients")
	authority(t, dir, "servers")
	data, err := os.ReadFile(filepath.Join(dir, "servers.crt"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "clients.crt"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenAuthority(dir, "clients", statefile.Disk{}); err == nil ||
		!strings.Contains(err.Error(), "do not match") ||
		!strings.Contains(err.Error(), "clients.key") {
		t.Errorf("OpenAuthority = %v", err)
	}
}

func TestRenewalInvalidatesOldCertificates(t *testing.T) {
	dir := t.TempDir()
	old := authority(t, dir, "clients")
	certPEM, _, end, err := old.Client("eve", []string{"podstead:admin"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	cert := parse(t, certPEM)
	verify := func(a *Authority) error {
		_, err := cert.Verify(x509.VerifyOptions{Roots: a.Pool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
		return err
	}
	if err := verify(old); err != nil || cert.Subject.CommonName != "eve" ||
		!slices.Equal(cert.Subject.Organization, []string{"podstead:admin"}) {
		t.Errorf("the certificate of %v: %v", cert.Subject, err)
	}
	if left := time.Until(end); left > time.Hour || left < 59*time.Minute || cert.NotAfter.Sub(end).Abs() > time.Second {
		t.Errorf("it ends %v, says %v", cert.NotAfter, end)
	}
	if _, err := RenewAuthority(dir, "clients", statefile.Disk{}); err != nil {
		t.Fatal(err)
	}
	if err := verify(authority(t, dir, "clients")); err == nil {
		t.Error("the new authority trusts a certificate of the old one")
	}
}

func TestServingCertificateIsSavedAndRenewed(t *testing.T) {
	dir := t.TempDir()
	a := authority(t, dir, "servers")
	names, addresses := []string{"edge"}, []netip.Addr{netip.MustParseAddr("192.0.2.7")}
	open := func() *Serving {
		s, err := NewServing(ServingConfig{Dir: dir, Authority: a, Names: func() []string { return names },
			Addresses: func() []netip.Addr { return addresses }})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	at := func(s *Serving, now time.Time) *x509.Certificate {
		t.Helper()
		cert, err := s.ownCertificate(now)
		if err != nil {
			t.Fatal(err)
		}
		return cert.Leaf
	}
	now := time.Now()
	s := open()
	first := at(s, now)
	for _, host := range []string{"edge", "localhost", "127.0.0.1", "::1", "192.0.2.7"} {
		if _, err := first.Verify(x509.VerifyOptions{Roots: a.Pool(), DNSName: host}); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
	same := func(what string, cert *x509.Certificate, want bool) {
		t.Helper()
		if got := cert.SerialNumber.Cmp(first.SerialNumber) == 0; got != want {
			t.Errorf("%s: the same certificate: %v, want %v", what, got, want)
		}
		first = cert
	}
	same("asked again", at(s, now.Add(time.Hour)), true)
	same("after a restart", at(open(), now.Add(time.Hour)), true)
	same("with two thirds of its life gone", at(s, now.Add(servingValidity-renewBefore+time.Minute)), false)
	addresses = append(addresses, netip.MustParseAddr("192.0.2.8"))
	same("with another address", at(open(), now), false)
	same("long after its end", at(s, now.Add(3*servingValidity)), false)
	same("after the clock went back", at(s, now), false)
	if _, err := RenewAuthority(dir, "servers", statefile.Disk{}); err != nil {
		t.Fatal(err)
	}
	a = authority(t, dir, "servers")
	same("after a change of the authority", at(open(), now), false)
}

// conn is a connection with a local address.
type conn struct {
	net.Conn
	local string
}

func (c conn) LocalAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(c.local))
}

func TestCertificateFilesAreForOtherHostsAndReloaded(t *testing.T) {
	dir, files := t.TempDir(), t.TempDir()
	a, otherCA := authority(t, dir, "servers"), authority(t, files, "otherCA")
	pair := func() {
		t.Helper()
		certPEM, keyPEM, err := otherCA.sign(
			&x509.Certificate{NotBefore: time.Now(), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"node.example"}})
		if err != nil {
			t.Fatal(err)
		}
		if err := pairOf(&servingFormat, files, "tls", statefile.Disk{}).save(certPEM, keyPEM); err != nil {
			t.Fatal(err)
		}
	}
	cfg := ServingConfig{Dir: dir, Authority: a, CertFile: filepath.Join(files, "tls.crt"),
		KeyFile: filepath.Join(files, "tls.key")}
	if _, err := NewServing(cfg); err == nil || !strings.Contains(err.Error(), "--tls-cert-file") {
		t.Errorf("files that are not there: %v", err)
	}
	pair()
	s, err := NewServing(cfg)
	if err != nil {
		t.Fatal(err)
	}
	get := func(local string) *x509.Certificate {
		t.Helper()
		cert, err := s.Certificate(&tls.ClientHelloInfo{Conn: conn{local: local}})
		if err != nil {
			t.Fatal(err)
		}
		return cert.Leaf
	}
	if err := get("127.0.0.1:10250").CheckSignatureFrom(a.cert); err != nil {
		t.Errorf("over loopback it is not podstead's own: %v", err)
	}
	// A kubeconfig for another host trusts podstead's own certificate, which has its server name.
	named, err := s.Certificate(&tls.ClientHelloInfo{Conn: conn{local: "192.0.2.7:10250"}, ServerName: ServerName})
	if err != nil || named.Leaf.CheckSignatureFrom(a.cert) != nil || named.Leaf.VerifyHostname(ServerName) != nil {
		t.Errorf("by the name of kubeconfigs it is not podstead's own: %v", err)
	}
	first := get("192.0.2.7:10250")
	if err := first.CheckSignatureFrom(otherCA.cert); err != nil {
		t.Errorf("from another host it is not that of the files: %v", err)
	}
	pair()
	if err := os.Chtimes(cfg.CertFile, time.Time{}, time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	second := get("192.0.2.7:10250")
	if second.SerialNumber.Cmp(first.SerialNumber) == 0 {
		t.Error("the changed files were not read again")
	}
	if err := os.WriteFile(cfg.CertFile, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if third := get("192.0.2.7:10250"); third.SerialNumber.Cmp(second.SerialNumber) != 0 {
		t.Error("a broken file took the place of the last good one")
	}
}

func TestSignedCertificateIsForOtherHostsUntilItExpires(t *testing.T) {
	dir := t.TempDir()
	own, otherCA := authority(t, dir, "servers"), authority(t, t.TempDir(), "cluster")
	var signed *tls.Certificate
	s, err := NewServing(ServingConfig{Dir: dir, Authority: own, Signed: func() *tls.Certificate { return signed }})
	if err != nil {
		t.Fatal(err)
	}
	by := func(what, local string, a *Authority) {
		t.Helper()
		cert, err := s.Certificate(&tls.ClientHelloInfo{Conn: conn{local: local}})
		if err != nil {
			t.Fatal(err)
		}
		if err := cert.Leaf.CheckSignatureFrom(a.cert); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	until := func(end time.Time) {
		t.Helper()
		certPEM, keyPEM, err := otherCA.sign(&x509.Certificate{NotBefore: time.Now().Add(-time.Hour), NotAfter: end})
		if err != nil {
			t.Fatal(err)
		}
		pair, err := tls.X509KeyPair(certPEM, keyPEM)
		if err != nil {
			t.Fatal(err)
		}
		signed = &pair
	}
	by("before there is one", "192.0.2.7:10250", own)
	until(time.Now().Add(time.Hour))
	by("from elsewhere", "192.0.2.7:10250", otherCA)
	by("over loopback, where kubeconfigs lead", "127.0.0.1:10250", own)
	until(time.Now().Add(-time.Minute))
	by("one that has ended", "192.0.2.7:10250", own)
}

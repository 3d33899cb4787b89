package access

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// rsaKey returns a public key of a size that takes minutes to create with its private key.
func rsaKey(t *testing.T, bits int) *rsa.PublicKey {
	t.Helper()
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), uint(bits-1)))
	if err != nil {
		t.Fatal(err)
	}
	return &rsa.PublicKey{N: n.SetBit(n.SetBit(n, bits-1, 1), 0, 1), E: 65537}
}

// issue issues a certificate for a key.
func (p *pool) issue(c *x509.Certificate, key any) *x509.Certificate {
	p.t.Helper()
	c.SerialNumber, c.NotBefore = big.NewInt(2), time.Now().Add(-time.Hour)
	if c.NotAfter.IsZero() {
		c.NotAfter = time.Now().Add(time.Hour)
	}
	der, err := x509.CreateCertificate(rand.Reader, c, p.cert, key, p.key)
	if err != nil {
		p.t.Fatal(err)
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		p.t.Fatal(err)
	}
	return made
}

// Chains that are expensive to verify are rejected before anything is verified.
func TestExpensiveChainsAreRejected(t *testing.T) {
	ca := newPool(t)
	asked := 0
	a := &Authenticator{Authorities: []Authority{
		{Pool: func() (*x509.CertPool, error) { asked++; return ca.pool, nil }, External: true}}}
	client := &x509.Certificate{Subject: pkix.Name{CommonName: "eve"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	authority := &x509.Certificate{Subject: pkix.Name{CommonName: "sub"}, IsCA: true, BasicConstraintsValid: true}
	leaf, large := ca.issue(client, rsaKey(t, 2048)), rsaKey(t, 8192)
	many := []*x509.Certificate{leaf}
	for range 100 {
		many = append(many, ca.issue(authority, large))
	}
	for name, c := range map[string]struct {
		chain []*x509.Certificate
		want  string
	}{
		"100 intermediates":  {many, "100 intermediate certificates; at most 3"},
		"4 intermediates":    {many[:5], "4 intermediate certificates; at most 3"},
		"a large key":        {many[:2], "RSA key of 8192 bits; at most 4096"},
		"a large client key": {[]*x509.Certificate{ca.issue(client, large)}, "RSA key of 8192 bits; at most 4096"},
		"what clients use": {[]*x509.Certificate{ca.issue(client, rsaKey(t, 4096)), ca.issue(authority, rsaKey(t, 4096))},
			""},
		"three intermediates": {[]*x509.Certificate{leaf, ca.cert, ca.cert, ca.cert}, ""},
	} {
		asked = 0
		r := httptest.NewRequest("GET", "/", nil)
		r.TLS = &tls.ConnectionState{PeerCertificates: c.chain}
		_, err := a.Caller(r, nil)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if c.want != "" && asked != 0 {
			t.Errorf("%s: the chain was verified", name)
		}
	}
}

// A connection's certificates are verified once, until the CA changes. podstead's own CA
// issues client certificates directly, so that other certificates of a chain are not tried.
func TestChainIsVerifiedOncePerConnection(t *testing.T) {
	ca := newPool(t)
	roots := x509.NewCertPool()
	a := &Authenticator{Authorities: []Authority{
		{Pool: func() (*x509.CertPool, error) { return roots, nil }, External: true}}}
	r := httptest.NewRequest("GET", "/", nil)
	r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{ca.sign("ann", "podstead:read")}}
	var conn Connection
	accepted := func(c *Connection) bool { _, err := a.Caller(r, c); return err == nil }
	if accepted(&conn) {
		t.Fatal("an unknown CA was accepted")
	}
	roots.AddCert(ca.cert)
	if accepted(&conn) {
		t.Error("the chain was verified again")
	}
	if !accepted(new(Connection)) {
		t.Error("another connection was not verified")
	}
	// A CA that was replaced has another pool.
	roots = ca.pool
	if !accepted(&conn) {
		t.Error("the chain was not verified by the new CA")
	}
	roots = x509.NewCertPool()
	for range 2 * maxVerdicts {
		if accepted(&conn) {
			t.Error("a removed CA is still accepted")
		}
		roots = x509.NewCertPool()
	}
	if n := len(conn.verdicts); n > maxVerdicts {
		t.Errorf("%d verdicts are kept", n)
	}

	sub := newPool(t)
	sub.cert = ca.issue(&x509.Certificate{Subject: pkix.Name{CommonName: "sub"}, IsCA: true, BasicConstraintsValid: true},
		sub.key.Public())
	roots = ca.pool
	r.TLS.PeerCertificates = []*x509.Certificate{sub.sign("ann", "podstead:read"), sub.cert}
	if !accepted(nil) {
		t.Error("an intermediate certificate of --client-ca-file is rejected")
	}
	a.Authorities[0].External = false
	if accepted(nil) {
		t.Error("an intermediate certificate of podstead's own CA is accepted")
	}
}

// A verdict does not outlive the chain: neither the certificate nor an intermediate one.
func TestVerifiedChainExpires(t *testing.T) {
	ca, sub := newPool(t), newPool(t)
	end := time.Now().Add(20 * time.Minute).Truncate(time.Second)
	sub.cert = ca.issue(&x509.Certificate{Subject: pkix.Name{CommonName: "sub"}, IsCA: true, BasicConstraintsValid: true,
		NotAfter: end}, sub.key.Public())
	a := &Authenticator{Authorities: []Authority{
		{Pool: func() (*x509.CertPool, error) { return ca.pool, nil }, External: true}}}
	r := httptest.NewRequest("GET", "/", nil)
	r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{sub.sign("ann", "podstead:read"), sub.cert}}
	caller, err := a.Caller(r, nil)
	if err != nil || !caller.Expires.Equal(end) {
		t.Errorf("expires %v, %v; want %v, the end of the intermediate certificate", caller.Expires, err, end)
	}
	expired := &Connection{verdicts: map[*x509.CertPool]verdict{ca.pool: {until: time.Now().Add(-time.Second)}}}
	if _, err := a.Caller(r, expired); err == nil {
		t.Error("an expired chain is accepted on an open connection")
	}
}

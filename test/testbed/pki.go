package testbed

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// authority is a certificate authority that keeps its files in a directory.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// newAuthority creates an authority with its certificate in DIR/ca.crt.
func newAuthority(dir string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	a := &authority{dir: dir, key: key, cert: &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "testbed"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(24 * time.Hour),
	}}
	der, err := x509.CreateCertificate(rand.Reader, a.cert, a.cert, key.Public(), key)
	if err != nil {
		return nil, err
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return nil, err
	}
	return a, writePEM(a.file("ca.crt"), "CERTIFICATE", der)
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// issue writes NAME.crt and NAME.key for a subject. Server certificates have IP addresses and
// DNS names.
func (a *authority) issue(name string, subject pkix.Name, ips []net.IP, names []string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: subject, IPAddresses: ips, DNSNames: names,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return err
	}
	if err := writePEM(a.file(name+".crt"), "CERTIFICATE", der); err != nil {
		return err
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return writePEM(a.file(name+".key"), "EC PRIVATE KEY", private)
}

// sign signs a PEM-encoded certificate request.
func (a *authority) sign(request []byte, from, to time.Time) ([]byte, error) {
	block, _ := pem.Decode(request)
	if block == nil {
		return nil, errors.New("the request is not in PEM")
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, err
	}
	if err := csr.CheckSignature(); err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: csr.Subject, IPAddresses: csr.IPAddresses,
		DNSNames:  csr.DNSNames,
		NotBefore: from, NotAfter: to, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, csr.PublicKey, a.key)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), err
}

// kubeconfig writes a kubeconfig with a client certificate for the API server on loopback.
func (a *authority) kubeconfig(file string, port int, user string, groups ...string) error {
	name := strings.ReplaceAll(user, ":", "-")
	if err := a.issue(name, pkix.Name{CommonName: user, Organization: groups}, nil, nil); err != nil {
		return err
	}
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: testbed
clusters: [{name: testbed, cluster: {server: "https://127.0.0.1:%d", certificate-authority: %s}}]
users: [{name: me, user: {client-certificate: %s, client-key: %s}}]
contexts: [{name: testbed, context: {cluster: testbed, user: me}}]
`, port, a.file("ca.crt"), a.file(name+".crt"), a.file(name+".key"))
	return os.WriteFile(file, []byte(text), 0o600)
}

func writePEM(file, kind string, der []byte) error {
	return os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}

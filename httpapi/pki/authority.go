package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"time"
)

// skew is how far a certificate reaches back, for clocks that are behind.
const skew = time.Hour

// Authority signs certificates. Its own never expires: who trusts it got it from
// this box, and a box without a clock of its own may have made it in 1970.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

// forever is what RFC 5280, 4.1.2.5, has for a certificate without an end.
var forever = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)

// OpenAuthority reads NAME.crt and NAME.key of a folder, or makes both.
func OpenAuthority(dir, name string) (*Authority, error) {
	keyPath, certPath := filepath.Join(dir, name+".key"), filepath.Join(dir, name+".crt")
	keyPEM, keyErr := readPrivate(keyPath)
	certPEM, certErr := os.ReadFile(certPath)
	switch {
	case errors.Is(keyErr, fs.ErrNotExist) || errors.Is(certErr, fs.ErrNotExist):
		return makeAuthority(dir, name)
	case keyErr != nil || certErr != nil:
		return nil, fmt.Errorf("cannot read the certificate authority %s: %w", name, errors.Join(keyErr, certErr))
	}
	a, err := parseAuthority(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w; remove both, and new ones are made", certPath, keyPath, err)
	}
	return a, nil
}

// RenewAuthority replaces an authority: nothing that it signed counts any more.
func RenewAuthority(dir, name string) (*Authority, error) { return makeAuthority(dir, name) }

func parseAuthority(certPEM, keyPEM []byte) (*Authority, error) {
	block, _ := pem.Decode(certPEM)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("the certificate is not in PEM")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, err
	}
	key, err := parseKey(keyPEM)
	if err != nil {
		return nil, err
	}
	if !key.PublicKey.Equal(cert.PublicKey) || !cert.IsCA {
		return nil, errors.New("certificate and key do not belong together")
	}
	return &Authority{cert: cert, key: key, pem: certPEM}, nil
}

func parseKey(keyPEM []byte) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(keyPEM)
	if block == nil {
		return nil, errors.New("the key is not in PEM")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errors.New("the key is not in PKCS 8")
	}
	own, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return nil, errors.New("the key is of another kind than podstead makes")
	}
	return own, nil
}

func makeAuthority(dir, name string) (*Authority, error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return nil, err
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		// The number tells authorities of one name apart, also to the eye.
		Subject:   pkix.Name{CommonName: fmt.Sprintf("podstead-%s@%x", name, serial.Bytes()[:4])},
		NotBefore: time.Unix(0, 0), NotAfter: forever,
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("cannot make the certificate authority %s: %w", name, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	a := &Authority{cert: cert, key: key, pem: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
	if err := writePair(dir, name, a.pem, keyPEM); err != nil {
		return nil, err
	}
	return a, nil
}

// PEM is the certificate, for those who are to trust the authority.
func (a *Authority) PEM() []byte { return a.pem }

// Pool trusts the authority and nobody else.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// Client makes a certificate that proves a user of some groups for a time.
func (a *Authority) Client(user string, groups []string, lasts time.Duration) (certPEM, keyPEM []byte, end time.Time, err error) {
	now := time.Now()
	end = now.Add(lasts)
	certPEM, keyPEM, err = a.sign(&x509.Certificate{
		Subject:   pkix.Name{CommonName: user, Organization: groups},
		NotBefore: now.Add(-skew), NotAfter: end,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	return certPEM, keyPEM, end, err
}

// sign completes a certificate with a number and a key of its own.
func (a *Authority) sign(template *x509.Certificate) (certPEM, keyPEM []byte, err error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	if template.SerialNumber, err = newSerial(); err != nil {
		return nil, nil, err
	}
	template.BasicConstraintsValid = true
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot sign a certificate for %s: %w", template.Subject.CommonName, err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), keyPEM, nil
}

func newKey() (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot make a key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot encode a key: %w", err)
	}
	return key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// newSerial is a number that nobody can foresee, of 127 bits, as RFC 5280 lets.
func newSerial() (*big.Int, error) {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	return n.SetBit(n, 126, 1), nil
}

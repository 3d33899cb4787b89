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
	"time"

	"github.com/podstead/podstead/internal/statefile"
)

// clockSkew backdates certificates, for clients whose clocks are behind.
const clockSkew = time.Hour

// Authority is a CA. Its own certificate never expires: clients that trust it got it from
// this node, and a host without a real-time clock may have created it in 1970.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
	pool *x509.CertPool
}

// forever is the end of a certificate that does not expire, by RFC 5280, 4.1.2.5.
var forever = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)

// OpenAuthority loads NAME.crt and NAME.key from a directory, or creates both.
func OpenAuthority(dir, name string, disk statefile.Disk) (*Authority, error) {
	files := pairOf(&authorityFormat, dir, name, disk)
	certPEM, keyPEM, err := files.load()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return RenewAuthority(dir, name, disk)
	case err != nil:
		return nil, fmt.Errorf("failed to load the CA %s: %w", name, err)
	}
	a, err := parseAuthority(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w; remove both to create new ones", files.cert.Path(), files.key.Path(), err)
	}
	return a, nil
}

func newAuthority(cert *x509.Certificate, key *ecdsa.PrivateKey, certPEM []byte) *Authority {
	a := &Authority{cert: cert, key: key, pem: certPEM, pool: x509.NewCertPool()}
	a.pool.AddCert(cert)
	return a
}

func parseAuthority(certPEM, keyPEM []byte) (*Authority, error) {
	block, _ := pem.Decode(certPEM)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("the certificate is not in PEM format")
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
		return nil, errors.New("the certificate and the key do not match")
	}
	return newAuthority(cert, key, certPEM), nil
}

func parseKey(keyPEM []byte) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(keyPEM)
	if block == nil {
		return nil, errors.New("the key is not in PEM format")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errors.New("the key is not in PKCS #8 format")
	}
	own, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return nil, errors.New("the key is not an ECDSA key")
	}
	return own, nil
}

// RenewAuthority replaces a CA: all certificates that it signed become invalid.
func RenewAuthority(dir, name string, disk statefile.Disk) (*Authority, error) {
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
		return nil, fmt.Errorf("failed to create the CA %s: %w", name, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	a := newAuthority(cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	if err := pairOf(&authorityFormat, dir, name, disk).save(a.pem, keyPEM); err != nil {
		return nil, err
	}
	return a, nil
}

// PEM returns the certificate of the CA.
func (a *Authority) PEM() []byte { return a.pem }

// Pool returns the pool with only this CA, always the same one.
func (a *Authority) Pool() *x509.CertPool { return a.pool }

// Client issues a client certificate for a user in some groups.
func (a *Authority) Client(user string, groups []string, validity time.Duration) (certPEM, keyPEM []byte, end time.Time,
	err error) {
	now := time.Now()
	end = now.Add(validity)
	certPEM, keyPEM, err = a.sign(&x509.Certificate{
		Subject:   pkix.Name{CommonName: user, Organization: groups},
		NotBefore: now.Add(-clockSkew), NotAfter: end,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	return certPEM, keyPEM, end, err
}

// sign issues a certificate with a new key and serial number.
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
		return nil, nil, fmt.Errorf("failed to sign a certificate for %s: %w", template.Subject.CommonName, err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), keyPEM, nil
}

func newKey() (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("failed to create a key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("failed to encode a key: %w", err)
	}
	return key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// newSerial returns an unpredictable serial number of 127 bits, as RFC 5280 allows.
func newSerial() (*big.Int, error) {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	return n.SetBit(n, 126, 1), nil
}

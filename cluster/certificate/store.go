package certificate

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/podstead/podstead/internal/statefile"
)

// keyFormat is the file of the key of a request. Without it the next request is another one.
var keyFormat = statefile.Format[*ecdsa.PrivateKey]{
	Name: "pki/{kubelet-client,kubelet-server}.key.tmp", Limit: 64 << 10, Damaged: statefile.MoveAside, DirMode: 0o700,
	Encode: keyPEM, Decode: parseKey,
}

// Store is the files of a certificate, in the kubelet's layout, so that either
// program can continue with the other's files: NAME-DATE.pem has the certificates
// and then the key, NAME-current.pem is a symbolic link to the newest one.
type Store struct {
	Dir, Name string
	Disk      statefile.Disk
}

// Current returns the path of the certificate and its key.
func (s Store) Current() string { return filepath.Join(s.Dir, s.Name+"-current.pem") }

// pending returns the file of the key of a request.
func (s Store) pending() *statefile.File[*ecdsa.PrivateKey] {
	return keyFormat.File(filepath.Join(s.Dir, s.Name+".key.tmp"), s.Disk)
}

// Load reads the current certificate.
func (s Store) Load() (*tls.Certificate, error) { return Load(s.Current(), s.Current()) }

// Load reads a certificate and its key.
func Load(certFile, keyFile string) (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, err
	}
	return &pair, nil
}

// key returns the key of the request. It is stored before the request is sent, so
// that a restarted daemon continues with the same request. A damaged one costs that request.
func (s Store) key() (*ecdsa.PrivateKey, error) {
	file := s.pending()
	key, err := file.Load()
	if err == nil || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, statefile.ErrDamaged) {
		return key, err
	}
	if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, fmt.Errorf("failed to generate a key: %w", err)
	}
	if err := file.Save(key); err != nil {
		return nil, fmt.Errorf("failed to write %s: %w", file.Path(), err)
	}
	return key, nil
}

// forget removes the key, so that the next request is a new one.
func (s Store) forget() error {
	if err := s.pending().Remove(); err != nil {
		return fmt.Errorf("failed to remove a key: %w", err)
	}
	return nil
}

func parseKey(text []byte) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("it is not in PEM format")
	}
	return x509.ParseECPrivateKey(block.Bytes)
}

func keyPEM(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("failed to encode a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

// save makes a signed certificate the current one. It keeps the previous one and
// removes older ones.
func (s Store) save(certPEM []byte, key *ecdsa.PrivateKey, now time.Time) (*tls.Certificate, error) {
	private, err := keyPEM(key)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certPEM, private)
	if err != nil {
		return nil, fmt.Errorf("the signed certificate is not usable: %w", err)
	}
	file := filepath.Join(s.Dir, s.Name+now.UTC().Format("-2006-01-02-15-04-05.pem"))
	if err := s.Disk.Replace(file, slices.Concat(certPEM, private), 0o600, statefile.Durable); err != nil {
		return nil, fmt.Errorf("failed to write %s: %w", file, err)
	}
	// Created under another name first, so that there always is a current one.
	next := filepath.Join(s.Dir, s.Name+"-updated.pem")
	disk := s.Disk.Do()
	if err := disk.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("failed to replace the certificate: %w", err)
	}
	before, _ := filepath.EvalSymlinks(s.Current())
	if err := errors.Join(os.Symlink(filepath.Base(file), next), disk.Rename(next, s.Current()),
		disk.Sync(s.Dir)); err != nil {
		return nil, fmt.Errorf("failed to replace the certificate: %w", err)
	}
	s.sweep(file, before)
	return &pair, s.forget()
}

// sweep removes all other files.
func (s Store) sweep(current, before string) {
	const date = "[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]-[0-9][0-9]-[0-9][0-9]-[0-9][0-9].pem"
	old, _ := filepath.Glob(filepath.Join(s.Dir, s.Name+"-"+date))
	for _, file := range old {
		if filepath.Base(file) != filepath.Base(current) && filepath.Base(file) != filepath.Base(before) {
			_ = os.Remove(file) // a remaining file is harmless
		}
	}
}

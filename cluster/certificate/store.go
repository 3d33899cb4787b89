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
)

// Store is the files of a certificate, in the kubelet's layout, so that either
// program can continue with the other's files: NAME-DATE.pem has the certificates
// and then the key, NAME-current.pem is a symbolic link to the newest one.
type Store struct {
	Dir, Name string
}

// Current returns the path of the certificate and its key.
func (s Store) Current() string { return filepath.Join(s.Dir, s.Name+"-current.pem") }

// pending returns the path of the key of a request.
func (s Store) pending() string { return filepath.Join(s.Dir, s.Name+".key.tmp") }

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
// that a restarted daemon continues with the same request.
func (s Store) key() (*ecdsa.PrivateKey, error) {
	if key, err := readKey(s.pending()); err == nil {
		return key, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("failed to generate a key: %w", err)
	}
	text, err := keyPEM(key)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("failed to create the certificate directory: %w", err)
	}
	return key, WriteFile(s.pending(), text)
}

// forget removes the key, so that the next request is a new one.
func (s Store) forget() error {
	if err := os.Remove(s.pending()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("failed to remove a key: %w", err)
	}
	return nil
}

func readKey(file string) (*ecdsa.PrivateKey, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%s is not in PEM", file)
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
	if err := WriteFile(file, slices.Concat(certPEM, private)); err != nil {
		return nil, err
	}
	// Created under another name first, so that there always is a current one.
	next := filepath.Join(s.Dir, s.Name+"-updated.pem")
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("failed to replace the certificate: %w", err)
	}
	before, _ := filepath.EvalSymlinks(s.Current())
	if err := errors.Join(os.Symlink(filepath.Base(file), next), os.Rename(next, s.Current())); err != nil {
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

// WriteFile replaces a file atomically. Only its owner can read it.
func WriteFile(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-")
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", path, err)
	}
	defer os.Remove(f.Name())
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", path, err)
	}
	return nil
}

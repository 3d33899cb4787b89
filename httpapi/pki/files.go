package pki

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/podstead/podstead/internal/atomicfile"
)

// readPrivate reads a private key. It is an error if other users can read the file.
func readPrivate(path string) ([]byte, error) {
	fi, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if fi.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s has mode %o, so that other users can read the key; run chmod 600 %s, or remove it if "+
			"the key may be compromised", path, fi.Mode().Perm(), path)
	}
	return os.ReadFile(path)
}

// writePair writes a certificate and its key. It removes the old key and writes the
// certificate first, so that no key is ever used with the certificate of another one.
func writePair(dir, name string, certPEM, keyPEM []byte) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("failed to create the certificate directory: %w", err)
	}
	if err := os.Remove(filepath.Join(dir, name+".key")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("failed to replace a key: %w", err)
	}
	if err := WriteFile(filepath.Join(dir, name+".crt"), certPEM); err != nil {
		return err
	}
	return WriteFile(filepath.Join(dir, name+".key"), keyPEM)
}

// WriteFile replaces a file atomically. Only its owner can read it.
func WriteFile(path string, data []byte) error {
	if err := atomicfile.Replace(path, data); err != nil {
		return fmt.Errorf("failed to write %s: %w", path, err)
	}
	return nil
}

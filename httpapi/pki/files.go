package pki

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/podstead/podstead/internal/atomicfile"
)

// readPrivate reads a key that nobody else may read.
func readPrivate(path string) ([]byte, error) {
	fi, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if fi.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s has the mode %o, so that others can read the key; give it 600, and remove it if somebody may have", path, fi.Mode().Perm())
	}
	return os.ReadFile(path)
}

// writePair writes a certificate and its key. The certificate goes first: a key
// without its certificate would be taken for one of a pair.
func writePair(dir, name string, certPEM, keyPEM []byte) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("cannot make the folder of certificates: %w", err)
	}
	if err := os.Remove(filepath.Join(dir, name+".key")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("cannot replace a key: %w", err)
	}
	if err := WriteFile(filepath.Join(dir, name+".crt"), certPEM); err != nil {
		return err
	}
	return WriteFile(filepath.Join(dir, name+".key"), keyPEM)
}

// WriteFile replaces a file in one step. Only its owner can read it.
func WriteFile(path string, data []byte) error {
	if err := atomicfile.Replace(path, data); err != nil {
		return fmt.Errorf("cannot write %s: %w", path, err)
	}
	return nil
}

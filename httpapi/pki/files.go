package pki

import (
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/podstead/podstead/internal/statefile"
)

// maxPEM bounds a file, in bytes.
const maxPEM = 64 << 10

// authorityFormat is the file of the certificate or the key of a CA. With another one all kubeconfigs are invalid.
var authorityFormat = statefile.Format[[]byte]{
	Name: "pki/{clients,servers}.{crt,key}", Limit: maxPEM, Damaged: statefile.Refuse, DirMode: 0o700,
	Encode: statefile.Bytes, Decode: statefile.Bytes, Check: checkPEM,
}

// servingFormat is the file of the serving certificate or its key.
var servingFormat = statefile.Format[[]byte]{
	Name: "pki/server.{crt,key}", Limit: maxPEM, Damaged: statefile.MoveAside, DirMode: 0o700,
	Durability: statefile.Atomic, Encode: statefile.Bytes, Decode: statefile.Bytes, Check: checkPEM,
}

func checkPEM(data *[]byte) error {
	if block, _ := pem.Decode(*data); block == nil {
		return errors.New("it is not in PEM format")
	}
	return nil
}

// pair are the files of a certificate and its key.
type pair struct {
	cert, key *statefile.File[[]byte]
	disk      statefile.Disk
}

// pairOf returns the files NAME.crt and NAME.key of a directory.
func pairOf(format *statefile.Format[[]byte], dir, name string, disk statefile.Disk) pair {
	path := filepath.Join(dir, name)
	return pair{cert: format.File(path+".crt", disk), key: format.File(path+".key", disk), disk: disk}
}

// load reads the certificate and the key. It is an error if other users can read the key.
func (p pair) load() (certPEM, keyPEM []byte, err error) {
	path := p.key.Path()
	if fi, err := os.Stat(path); err == nil && fi.Mode().Perm()&0o077 != 0 {
		return nil, nil,
			fmt.Errorf("%s has mode %o, so that other users can read the key; run chmod 600 %s, or remove it if "+
				"the key may be compromised", path, fi.Mode().Perm(), path)
	}
	keyPEM, keyErr := p.key.Load()
	certPEM, certErr := p.cert.Load()
	return certPEM, keyPEM, errors.Join(keyErr, certErr)
}

// save writes the certificate and the key. It removes the old key and writes the
// certificate first, so that no key is ever used with the certificate of another one.
func (p pair) save(certPEM, keyPEM []byte) error {
	if err := p.disk.Do().Remove(p.key.Path()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("failed to replace a key: %w", err)
	}
	if err := p.cert.Save(certPEM); err != nil {
		return fmt.Errorf("failed to write %s: %w", p.cert.Path(), err)
	}
	if err := p.key.Save(keyPEM); err != nil {
		return fmt.Errorf("failed to write %s: %w", p.key.Path(), err)
	}
	return nil
}

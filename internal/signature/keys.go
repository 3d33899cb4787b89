package signature

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/podstead/podstead/internal/fileaccess"
)

// maxKeyFile limits a file of keys in bytes.
const maxKeyFile = 64 << 10

// Keys are public keys, any of which may have made a signature.
type Keys []*ecdsa.PublicKey

// ReadKeys reads the PEM files of ECDSA P-256 public keys. A file may contain several. The
// error names the file and a remedy.
func ReadKeys(files []string) (Keys, error) {
	var keys Keys
	for _, file := range files {
		found, err := readKeyFile(file)
		if err != nil {
			return nil, fmt.Errorf("key %s: %w", file, err)
		}
		keys = append(keys, found...)
	}
	return keys, nil
}

func readKeyFile(path string) (keys Keys, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w; create it with cosign generate-key-pair, or correct the path",
			errors.Unwrap(err))
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("is not a regular file")
	}
	if why := fileaccess.Writers(info); why != "" {
		return nil, fmt.Errorf("users other than root may replace it: %s; run chown root:root and chmod go-w on it", why)
	}
	data, err := io.ReadAll(io.LimitReader(file, maxKeyFile))
	if err != nil {
		return nil, err
	}
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "PUBLIC KEY" {
			return nil, fmt.Errorf("contains a %s; it must contain PUBLIC KEYs only, as cosign.pub does", block.Type)
		}
		key, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("contains no valid public key: %w", err)
		}
		public, ok := key.(*ecdsa.PublicKey)
		if !ok || public.Curve != elliptic.P256() {
			return nil, errors.New("contains a key that is not an ECDSA P-256 key; create one with cosign generate-key-pair")
		}
		keys = append(keys, public)
	}
	if len(keys) == 0 {
		return nil, errors.New("contains no PEM public key; use the cosign.pub of cosign generate-key-pair")
	}
	return keys, nil
}

// verify reports whether one of the keys made an ASN.1 signature of a SHA-256 digest.
func (k Keys) verify(digest, signature []byte) bool {
	for _, key := range k {
		if ecdsa.VerifyASN1(key, digest, signature) {
			return true
		}
	}
	return false
}

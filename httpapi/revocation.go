package httpapi

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/podstead/podstead/httpapi/access"
	"github.com/podstead/podstead/httpapi/apistatus"
	"github.com/podstead/podstead/httpapi/pki"
)

// revokedFile is the file in Remote.Dir with the IDs of revoked kubeconfigs, one per line.
const revokedFile = "revoked-kubeconfigs"

// maxRevoked is the maximum size of the file in bytes.
const maxRevoked = 1 << 20

func (m *remote) revokedPath() string { return filepath.Join(m.cfg.Dir, revokedFile) }

// loadRevoked reads the IDs of revoked kubeconfigs. The caller holds mu.
func (m *remote) loadRevoked() error {
	fi, err := os.Stat(m.revokedPath())
	if errors.Is(err, fs.ErrNotExist) {
		m.revoked = map[string]bool{}
		return nil
	}
	if err == nil && (!fi.Mode().IsRegular() || fi.Size() > maxRevoked) {
		err = fmt.Errorf("%s is not a regular file of at most %d bytes", m.revokedPath(), maxRevoked)
	}
	var text []byte
	if err == nil {
		text, err = os.ReadFile(m.revokedPath())
	}
	if err != nil {
		return err
	}
	m.revoked = map[string]bool{}
	for _, id := range strings.Fields(string(text)) {
		m.revoked[id] = true
	}
	return nil
}

// isRevoked reports whether the kubeconfig with a certificate was revoked. While that is
// not known, all are.
func (m *remote) isRevoked(cert *x509.Certificate) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.revoked == nil || m.revoked[access.CredentialID(cert)]
}

// revokeKubeconfig invalidates one kubeconfig. Its watches and sessions end.
func (m *remote) revokeKubeconfig(id string) error {
	// After mu is released: it is needed to check a certificate.
	defer m.requests.Recheck()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.revoked == nil {
		if err := m.loadRevoked(); err != nil {
			return fmt.Errorf("failed to read the revoked kubeconfigs: %w", err)
		}
	}
	all := maps.Clone(m.revoked)
	all[id] = true
	if err := os.MkdirAll(m.cfg.Dir, 0o700); err != nil {
		return err
	}
	if err := pki.WriteFile(m.revokedPath(), []byte(strings.Join(slices.Sorted(maps.Keys(all)), "\n")+"\n")); err != nil {
		return err
	}
	m.revoked = all
	return nil
}

var credentialID = regexp.MustCompile(`^[0-9a-f]{1,40}$`)

// revokeKubeconfig serves the revocation of one kubeconfig.
func revokeKubeconfig(m *remote) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		id := r.PathValue("id")
		if !credentialID.MatchString(id) {
			apistatus.Error(w, r, http.StatusBadRequest, "id: must be the ID of a kubeconfig, which podstead kubeconfig "+
				"prints and the log has: up to 40 hexadecimal digits")
			return
		}
		if err := m.revokeKubeconfig(id); err != nil {
			apistatus.Error(w, r, http.StatusInternalServerError, "%v", err)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}
}

// idOf returns the ID of an issued certificate.
func idOf(certPEM []byte) (string, error) {
	block, _ := pem.Decode(certPEM)
	if block == nil {
		return "", errors.New("the issued certificate is not in PEM format")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return "", err
	}
	return access.CredentialID(cert), nil
}

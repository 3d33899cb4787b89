package httpapi

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/podstead/podstead/httpapi/access"
	"github.com/podstead/podstead/httpapi/apistatus"
	"github.com/podstead/podstead/internal/statefile"
)

// revokedFormat is the file in Remote.Dir with the IDs of revoked kubeconfigs, one per line.
var revokedFormat = statefile.Format[map[string]bool]{
	Name: "pki/revoked-kubeconfigs", Limit: 1 << 20, Damaged: statefile.Refuse, DirMode: 0o700,
	Encode: func(ids map[string]bool) ([]byte, error) {
		return []byte(strings.Join(slices.Sorted(maps.Keys(ids)), "\n") + "\n"), nil
	},
	Decode: func(text []byte) (map[string]bool, error) {
		ids := map[string]bool{}
		for _, id := range strings.Fields(string(text)) {
			ids[id] = true
		}
		return ids, nil
	},
}

// loadRevoked reads the IDs of revoked kubeconfigs. The caller holds mu.
func (m *remote) loadRevoked() error {
	ids, err := m.files.revoked.Load()
	if errors.Is(err, fs.ErrNotExist) {
		ids, err = map[string]bool{}, nil
	}
	if err == nil {
		m.revoked = ids
	}
	return err
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
	if err := m.files.revoked.Save(all); err != nil {
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

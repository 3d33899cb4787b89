package access

import (
	"crypto/x509"
	"fmt"
	"os"
	"strings"
	"sync"
)

// RolePrefix is the prefix of organizations in client certificates that grant a role, such
// as podstead:exec.
const RolePrefix = "podstead:"

// The Kubernetes groups with all permissions. The API server is a member of one of them. A
// cluster can revoke the permissions of the second group.
const (
	mastersGroup = "system:masters"
	adminsGroup  = "kubeadm:cluster-admins"
)

// Group returns the organization that grants the role.
func (r Role) Group() string { return RolePrefix + string(r) }

// classesOfGroups returns the classes that groups grant, whatever the cluster allows.
// authorizedByCluster reports that the cluster is asked as well.
func classesOfGroups(groups []string, authorizedByCluster bool) Class {
	var may Class
	for _, g := range groups {
		if role, ok := strings.CutPrefix(g, RolePrefix); ok {
			may |= Role(role).Classes()
		} else if g == mastersGroup || g == adminsGroup && !authorizedByCluster {
			may |= All
		}
	}
	return may
}

// CredentialID identifies a certificate of a CA: its serial number in hexadecimal digits.
func CredentialID(cert *x509.Certificate) string { return cert.SerialNumber.Text(16) }

// CAFile is a file of CAs whose client certificates are accepted. It is reloaded when it has
// changed. If it cannot be read any more, its certificates are rejected.
type CAFile struct {
	path string

	mu    sync.Mutex
	state fileState
	pool  *x509.CertPool
}

// OpenCAFile loads the file. An invalid file is an error.
func OpenCAFile(path string) (*CAFile, error) {
	f := &CAFile{path: path}
	_, err := f.Pool()
	return f, err
}

// Pool returns the current CAs.
func (f *CAFile) Pool() (*x509.CertPool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fi, err := os.Stat(f.path)
	if err != nil {
		return nil, fmt.Errorf("--client-ca-file: %w", err)
	}
	if now := fileStateOf(fi); f.pool == nil || now != f.state {
		data, err := os.ReadFile(f.path)
		if err != nil {
			return nil, fmt.Errorf("--client-ca-file: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(data) {
			return nil, fmt.Errorf("--client-ca-file %s contains no PEM certificate", f.path)
		}
		f.pool, f.state = pool, now
	}
	return f.pool, nil
}

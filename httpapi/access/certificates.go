package access

import (
	"crypto/x509"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// RolePrefix begins the organization of a client certificate that gives its
// user a role, such as podstead:exec.
const RolePrefix = "podstead:"

// The groups of Kubernetes whose members may do everything; a kubelet lets the
// API server in for them. The rights of the second one can be taken from it in
// the cluster.
const (
	mastersGroup = "system:masters"
	adminsGroup  = "kubeadm:cluster-admins"
)

// Group is the organization that gives a role.
func (r Role) Group() string { return RolePrefix + string(r) }

// ofGroups is what somebody may do who is of the given organizations, whatever a
// cluster says, if it is asked.
func classesOfGroups(groups []string, asked bool) Class {
	var may Class
	for _, g := range groups {
		if role, ok := strings.CutPrefix(g, RolePrefix); ok {
			may |= Role(role).Classes()
		} else if g == mastersGroup || g == adminsGroup && !asked {
			may |= All
		}
	}
	return may
}

// CAFile is a file of authorities whose client certificates count. It is read
// again when it has changed; one that cannot be read any more lets nobody in.
type CAFile struct {
	path string

	mu    sync.Mutex
	state fileState
	pool  *x509.CertPool
}

// OpenCAFile reads the file; a fault in it is an error here.
func OpenCAFile(path string) (*CAFile, error) {
	f := &CAFile{path: path}
	_, err := f.Pool()
	return f, err
}

// Pool are the authorities as of now.
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
			return nil, fmt.Errorf("--client-ca-file %s has no certificate in PEM", f.path)
		}
		f.pool, f.state = pool, now
	}
	return f.pool, nil
}

// verify says why a client's certificate does not count, nil if it does. The
// rest of the chain are certificates between it and an authority.
func verify(chain []*x509.Certificate, pool *x509.CertPool, now time.Time) error {
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{
		Roots: pool, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	return err
}

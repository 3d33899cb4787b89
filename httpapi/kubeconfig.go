package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/podstead/podstead/api"
	"github.com/podstead/podstead/httpapi/access"
	"github.com/podstead/podstead/httpapi/apistatus"
	"github.com/podstead/podstead/httpapi/pki"
)

// maxKubeconfigValidity is the maximum validity of a kubeconfig.
const maxKubeconfigValidity = 10 * 365 * 24 * time.Hour

// defaultKubeconfigValidity returns the validity of a kubeconfig for a role: a day if it can
// change something, a month if not.
func defaultKubeconfigValidity(role access.Role) time.Duration {
	if role == access.RoleRead {
		return 30 * 24 * time.Hour
	}
	return 24 * time.Hour
}

// kubeletPort is the kubelet's port. Kubeconfigs use it if it is free.
const kubeletPort = 10250

var errStopping = errors.New("podstead is shutting down")

// kubeconfig issues a kubeconfig. Only callers on the unix socket get one, so that a
// kubeconfig cannot renew itself.
func kubeconfig(m *remote) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !access.CallerFrom(r.Context()).Local {
			apistatus.Error(w, r, http.StatusForbidden, "kubeconfigs are issued only over the unix socket of this node")
			return
		}
		q := r.URL.Query()
		role := access.RoleAdmin
		var err error
		if text := q.Get("role"); text != "" {
			if role, err = access.ParseRole(text); err != nil {
				apistatus.Error(w, r, http.StatusBadRequest, "role: %v", err)
				return
			}
		}
		validity := defaultKubeconfigValidity(role)
		if text := q.Get("duration"); text != "" {
			if validity, err = time.ParseDuration(text); err != nil || validity < time.Minute ||
				validity > maxKubeconfigValidity {
				apistatus.Error(w, r, http.StatusBadRequest, "duration=%q: must be a duration such as 720h, from 1m to %s", text,
					maxKubeconfigValidity)
				return
			}
		}
		k, err := m.issueKubeconfig(r.Context(), role, validity)
		if err != nil {
			apistatus.Error(w, r, http.StatusInternalServerError, "%v", err)
			return
		}
		w.Header().Set("Cache-Control", "no-store")
		writeJSON(w, k)
	}
}

func revokeKubeconfigs(m *remote) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := m.revokeKubeconfigs(); err != nil {
			apistatus.Error(w, r, http.StatusInternalServerError, "%v", err)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}
}

// issueKubeconfig issues a kubeconfig for a role, and opens a port on loopback for it.
func (m *remote) issueKubeconfig(ctx context.Context, role access.Role, validity time.Duration) (*api.Kubeconfig,
	error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.openKeys(); err != nil {
		return nil, err
	}
	address, err := m.openLoopbackAddress(ctx)
	if err != nil {
		return nil, err
	}
	user := "podstead-" + string(role)
	certPEM, keyPEM, end, err := m.clientCA.Client(user, []string{role.Group()}, validity)
	if err != nil {
		return nil, err
	}
	id, err := idOf(certPEM)
	if err != nil {
		return nil, err
	}
	remote := ""
	if m.mainAddr != nil && !m.mainAddr.IP.IsLoopback() {
		remote = m.mainAddr.String()
	}
	m.log.Info("Kubeconfig created", "id", id, "role", string(role), "expires", end.UTC().Format(time.RFC3339))
	return &api.Kubeconfig{
		Node: m.cfg.Node, User: user, Role: string(role), ID: id, Server: "https://" + address, ServerName: pki.ServerName,
		RemoteAddress:        remote,
		CertificateAuthority: string(m.serverCA.PEM()), ClientCertificate: string(certPEM), ClientKey: string(keyPEM),
		Expires: end.UTC(),
	}, nil
}

// openLoopbackAddress returns the loopback address for kubeconfigs: that of the port of the
// flags, the saved one, or a new one, which it opens. The caller holds mu.
func (m *remote) openLoopbackAddress(ctx context.Context) (string, error) {
	select {
	case <-m.stopped:
		return "", errStopping
	default:
	}
	switch {
	case m.mainOnLoopback():
		return loopbackAddress(m.mainAddr.Port), nil
	case m.loopback != nil:
		return m.loopback.Addr().String(), nil
	}
	var errs []error
	for _, address := range []string{m.savedLoopback(), loopbackAddress(m.preferredPort), loopbackAddress(0)} {
		if address == "" {
			continue
		}
		if err := m.openLoopback(ctx, address); err != nil {
			errs = append(errs, err)
			continue
		}
		err := m.saveLoopback()
		if err == nil {
			select {
			case m.listeners <- *m.loopback:
			case <-m.stopped:
				err = errStopping
			}
		}
		if err != nil {
			_ = m.loopback.Close()
			m.loopback = nil
			return "", err
		}
		m.log.Info("Opened a TLS port for kubeconfigs", "address", m.loopback.Addr().String())
		return m.loopback.Addr().String(), nil
	}
	return "", errors.Join(errs...)
}

// revokeKubeconfigs invalidates all kubeconfigs that were issued, and closes their port.
func (m *remote) revokeKubeconfigs() error {
	// After mu is released: it is needed to check a certificate.
	defer m.requests.Recheck()
	m.mu.Lock()
	defer m.mu.Unlock()
	clients, err := pki.RenewAuthority(m.cfg.Dir, "clients", m.cfg.Disk)
	if err != nil {
		return err
	}
	m.clientCA, m.revoked = clients, map[string]bool{}
	// Also if it cannot be used.
	if err := m.cfg.Disk.Do().Remove(m.files.revoked.Path()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("failed to remove the list of revoked kubeconfigs: %w", err)
	}
	if m.loopback != nil {
		close(m.loopback.revoked)
		m.loopback = nil
	}
	if err := m.files.loopback.Remove(); err != nil {
		return fmt.Errorf("failed to remove the saved address of kubeconfigs: %w", err)
	}
	return nil
}

// savedLoopback returns the address in kubeconfigs that were issued before the last restart,
// empty if there is none.
func (m *remote) savedLoopback() string {
	a, err := m.files.loopback.Load()
	switch {
	case err == nil:
		return a.String()
	case !errors.Is(err, fs.ErrNotExist):
		m.log.Warn("Failed to read the address of kubeconfigs", "err", err)
	}
	return ""
}

// saveLoopback stores the address of loopback.
func (m *remote) saveLoopback() error {
	a, err := netip.ParseAddrPort(m.loopback.Addr().String())
	if err != nil {
		return err
	}
	return m.files.loopback.Save(a)
}

func loopbackAddress(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/podstead/podstead/httpapi/access"
	"github.com/podstead/podstead/httpapi/pki"
)

// How long a kubeconfig lasts.
const (
	defaultKubeconfigLife = 30 * 24 * time.Hour
	maxKubeconfigLife     = 10 * 365 * 24 * time.Hour
)

// kubeletPort is where a kubelet answers, and kubeconfigs lead if it is free.
const kubeletPort = 10250

var errStopping = errors.New("podstead is stopping, and opens no port")

// Kubeconfig is what a client needs to reach this box and to prove who he is.
type Kubeconfig struct {
	// Node names this box, User the client and his role.
	Node string      `json:"node"`
	User string      `json:"user"`
	Role access.Role `json:"role"`
	// Server is the URL to ask.
	Server string `json:"server"`
	// What is to be trusted, and what proves the user, in PEM.
	CertificateAuthority string `json:"certificateAuthority"`
	ClientCertificate    string `json:"clientCertificate"`
	ClientKey            string `json:"clientKey"`
	// Expires is when the proof ends.
	Expires time.Time `json:"expires"`
}

// KubeconfigMaker lets clients in that cannot use the socket.
type KubeconfigMaker interface {
	// Kubeconfig makes one for a role, and opens a port on loopback for it.
	Kubeconfig(ctx context.Context, role access.Role, lasts time.Duration) (*Kubeconfig, error)
	// Revoke ends every one that was made, and closes the port.
	Revoke() error
}

// kubeconfig answers with a new one. Only who may use the socket gets it: a
// kubeconfig must not prolong itself.
func kubeconfig(m KubeconfigMaker) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !access.CallerFrom(r.Context()).Local {
			http.Error(w, "a kubeconfig is made over the socket of this box only", http.StatusForbidden)
			return
		}
		q := r.URL.Query()
		role, lasts := access.RoleAdmin, defaultKubeconfigLife
		var err error
		if text := q.Get("role"); text != "" {
			if role, err = access.ParseRole(text); err != nil {
				http.Error(w, "role: "+err.Error(), http.StatusBadRequest)
				return
			}
		}
		if text := q.Get("duration"); text != "" {
			if lasts, err = time.ParseDuration(text); err != nil || lasts < time.Minute || lasts > maxKubeconfigLife {
				http.Error(w, fmt.Sprintf("duration=%s: must be a time such as 720h, from 1m to %s", strconv.Quote(text), maxKubeconfigLife), http.StatusBadRequest)
				return
			}
		}
		k, err := m.Kubeconfig(r.Context(), role, lasts)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Cache-Control", "no-store")
		writeJSON(w, k)
	}
}

func revokeKubeconfigs(m KubeconfigMaker) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := m.Revoke(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}
}

// Kubeconfig implements KubeconfigMaker.
func (m *remote) Kubeconfig(ctx context.Context, role access.Role, lasts time.Duration) (*Kubeconfig, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.openKeys(); err != nil {
		return nil, err
	}
	address, err := m.loopbackURLAddress(ctx)
	if err != nil {
		return nil, err
	}
	user := "podstead-" + string(role)
	certPEM, keyPEM, end, err := m.clientCA.Client(user, []string{role.Group()}, lasts)
	if err != nil {
		return nil, err
	}
	return &Kubeconfig{
		Node: m.cfg.Node, User: user, Role: role, Server: "https://" + address,
		CertificateAuthority: string(m.serverCA.PEM()), ClientCertificate: string(certPEM), ClientKey: string(keyPEM), Expires: end.UTC(),
	}, nil
}

// reach is an open address on loopback: that of the flags' port, the one that is
// kept, or a new one. The caller holds mu.
func (m *remote) loopbackURLAddress(ctx context.Context) (string, error) {
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
	var faults []error
	for _, address := range []string{m.savedLoopback(), loopbackAddress(m.preferredPort), loopbackAddress(0)} {
		if address == "" {
			continue
		}
		if err := m.openLoopback(ctx, address); err != nil {
			faults = append(faults, err)
			continue
		}
		err := pki.WriteFile(m.loopbackPath(), []byte(m.loopback.Addr().String()+"\n"))
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
		m.log.Info("answers over TLS, since somebody asked for a kubeconfig", "address", m.loopback.Addr().String())
		return m.loopback.Addr().String(), nil
	}
	return "", errors.Join(faults...)
}

// Revoke implements KubeconfigMaker.
func (m *remote) Revoke() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	clients, err := pki.RenewAuthority(m.cfg.Dir, "clients")
	if err != nil {
		return err
	}
	m.clientCA = clients
	for _, end := range m.certRequests {
		end()
	}
	if m.loopback != nil {
		close(m.loopback.revoked)
		m.loopback = nil
	}
	if err := os.Remove(m.loopbackPath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot forget where kubeconfigs lead: %w", err)
	}
	return nil
}

// keptLoopback is where kubeconfigs of an earlier life lead, empty if nowhere.
// What is no loopback address is not taken from the file.
func (m *remote) savedLoopback() string {
	text, err := os.ReadFile(m.loopbackPath())
	if err != nil {
		return ""
	}
	a, err := netip.ParseAddrPort(strings.TrimSpace(string(text)))
	if err != nil || !a.Addr().IsLoopback() || a.Port() == 0 {
		return ""
	}
	return a.String()
}

func loopbackAddress(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

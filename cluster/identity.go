package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/podstead/podstead/cluster/certificate"
	"github.com/podstead/podstead/internal/statefile"
)

// Certificates configures the certificates that the cluster signs.
type Certificates struct {
	// Bootstrap is the kubeconfig to request the first certificate with; empty
	// disables that.
	Bootstrap string
	// Directory stores the certificates.
	Directory string
	// Rotate renews the client certificate before it expires, Serving requests one
	// for the kubelet API port.
	Rotate, Serving bool
}

// The file names, as the kubelet's.
const (
	clientName  = "kubelet-client"
	servingName = "kubelet-server"
)

// User and group of a node, as the Node authorizer expects them.
const (
	userPrefix = "system:node:"
	nodesGroup = "system:nodes"
)

// identity is a client certificate that is requested and renewed here.
type identity struct {
	// config has the address of the API server and no credentials.
	config *rest.Config
	// current is the present certificate; nil if it must be requested.
	current *tls.Certificate
	store   certificate.Store
	// kubeconfig is written once there is a certificate; nil if the present one
	// refers to it.
	kubeconfig *clientcmdapi.Config
	// earlier has the certificates of an earlier cluster, which are removed then.
	earlier []certificate.Store
}

// readIdentity reads the credentials. The identity is nil if the kubeconfig is
// complete.
func readIdentity(kubeconfig string, c Certificates, name string, log *slog.Logger) (*rest.Config, *identity, error) {
	cfg, cert, store, err := readCredentials(kubeconfig, c.Directory)
	if c.Bootstrap != "" && (err != nil || cert != nil && certificate.Expired(cert, time.Now())) {
		why := err
		if why == nil {
			why = fmt.Errorf("its certificate expired at %s", cert.Leaf.NotAfter.Format(time.RFC3339))
		}
		id, err := bootstrapIdentity(kubeconfig, c, store)
		if err != nil {
			return nil, nil, fmt.Errorf("--kubeconfig %s: %w; --bootstrap-kubeconfig %s: %w", kubeconfig, why, c.Bootstrap, err)
		}
		log.Info("Requesting a client certificate from the cluster", "since", why, "bootstrap", c.Bootstrap)
		return nil, id, nil
	}
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("--kubeconfig %s: %w; fix the file, or omit the flag to run without a cluster",
			kubeconfig, err)
	case cert == nil || !c.Rotate:
		return cfg, nil, nil
	case cert.Leaf.Subject.CommonName != userPrefix+name:
		log.Warn("The client certificate of --kubeconfig does not belong to this node and is not rotated", "user",
			cert.Leaf.Subject.CommonName, "node", name)
		return cfg, nil, nil
	}
	return nil, &identity{config: rest.AnonymousClientConfig(cfg), current: cert, store: store}, nil
}

// readCredentials reads a kubeconfig and its certificate, nil if it has other
// credentials. The store is where the next certificates go.
func readCredentials(kubeconfig, dir string) (*rest.Config, *tls.Certificate, certificate.Store, error) {
	store := certificate.Store{Dir: dir, Name: clientName}
	raw, err := loadKubeconfig(kubeconfig)
	if err != nil {
		return nil, nil, store, err
	}
	if proof := authInfoOf(raw); filepath.Base(proof.ClientCertificate) == filepath.Base(store.Current()) {
		// A kubelet's layout stays where it is.
		store.Dir = filepath.Dir(proof.ClientCertificate)
	}
	cfg, err := clientcmd.NewDefaultClientConfig(*raw, nil).ClientConfig()
	if err != nil {
		return nil, nil, store, err
	}
	t := &cfg.TLSClientConfig
	var cert *tls.Certificate
	switch {
	case len(t.CertData) > 0 || t.CertFile == "" && len(t.KeyData) > 0:
		var pair tls.Certificate
		pair, err = tls.X509KeyPair(t.CertData, t.KeyData)
		cert = &pair
	case t.CertFile != "":
		cert, err = certificate.Load(t.CertFile, t.KeyFile)
	default:
		return cfg, nil, store, nil
	}
	if err != nil {
		return nil, nil, store, err
	}
	// It may have been renewed into another file.
	if newer, err := store.Load(); err == nil && newer.Leaf.NotBefore.After(cert.Leaf.NotBefore) &&
		newer.Leaf.Subject.CommonName == cert.Leaf.Subject.CommonName {
		cert = newer
	}
	return cfg, cert, store, nil
}

// bootstrapIdentity returns an identity whose certificate must be requested.
func bootstrapIdentity(kubeconfig string, c Certificates, store certificate.Store) (*identity, error) {
	raw, err := loadKubeconfig(c.Bootstrap)
	if err != nil {
		return nil, err
	}
	cfg, err := clientcmd.NewDefaultClientConfig(*raw, nil).ClientConfig()
	if err != nil {
		return nil, err
	}
	id := &identity{config: rest.AnonymousClientConfig(cfg), store: store}
	if before, err := loadKubeconfig(kubeconfig); err == nil {
		if proof := authInfoOf(before); proof.ClientCertificate == store.Current() && proof.ClientKey == store.Current() {
			return id, nil
		}
	}
	// Certificates of an earlier kubeconfig belong to an earlier cluster. They stay until
	// there is a new one: the kubeconfig may be unreadable only for now, and nothing can be
	// removed from a read-only file system.
	id.earlier = []certificate.Store{store, {Dir: c.Directory, Name: servingName}}
	id.kubeconfig = kubeconfigFor(raw, store.Current())
	return id, nil
}

// loadKubeconfig reads a kubeconfig and makes its paths absolute.
func loadKubeconfig(path string) (*clientcmdapi.Config, error) {
	raw, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return nil, err
	}
	return raw, clientcmd.ResolveLocalPaths(raw)
}

// authInfoOf returns the credentials of the current user of a kubeconfig.
func authInfoOf(raw *clientcmdapi.Config) *clientcmdapi.AuthInfo {
	if context := raw.Contexts[raw.CurrentContext]; context != nil && raw.AuthInfos[context.AuthInfo] != nil {
		return raw.AuthInfos[context.AuthInfo]
	}
	return &clientcmdapi.AuthInfo{}
}

// kubeconfigFor returns a kubeconfig of the same cluster with the given
// certificate.
func kubeconfigFor(bootstrap *clientcmdapi.Config, current string) *clientcmdapi.Config {
	made := clientcmdapi.NewConfig()
	cluster, namespace := (*clientcmdapi.Cluster)(nil), ""
	if context := bootstrap.Contexts[bootstrap.CurrentContext]; context != nil {
		cluster, namespace = bootstrap.Clusters[context.Cluster], context.Namespace
	}
	made.Clusters["default"] = cluster
	made.AuthInfos["default"] = &clientcmdapi.AuthInfo{ClientCertificate: current, ClientKey: current}
	made.Contexts["default"] = &clientcmdapi.Context{Cluster: "default", AuthInfo: "default", Namespace: namespace}
	made.CurrentContext = "default"
	return made
}

// writeKubeconfig writes the kubeconfig that refers to the certificate, for the
// next start.
func (id *identity) writeKubeconfig(path string) error {
	if id.kubeconfig == nil {
		return nil
	}
	text, err := clientcmd.Write(*id.kubeconfig)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("failed to create the directory of --kubeconfig: %w", err)
	}
	for _, store := range id.earlier {
		if err := os.Remove(store.Current()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("failed to remove the certificate of an earlier cluster: %w", err)
		}
	}
	id.earlier = nil // from now on they are this cluster's
	if err := (statefile.Disk{}).Replace(path, text, 0o600, statefile.Durable); err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	id.kubeconfig = nil
	return nil
}

// clientConfig returns a client configuration that always uses the current
// certificate.
func (id *identity) clientConfig(current func() *tls.Certificate,
	dial func(context.Context, string, string) (net.Conn, error)) (*rest.Config, *rotatingTransport, error) {
	secure, err := rest.TLSConfigFor(id.config)
	if err != nil {
		return nil, nil, err
	}
	if secure == nil {
		secure = &tls.Config{}
	}
	secure.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		if cert := current(); cert != nil {
			return cert, nil
		}
		return &tls.Certificate{}, nil
	}
	proxy := id.config.Proxy
	if proxy == nil {
		proxy = http.ProxyFromEnvironment
	}
	t := &rotatingTransport{newTransport: func() *http.Transport {
		return utilnet.SetTransportDefaults(&http.Transport{
			Proxy: proxy, TLSClientConfig: secure.Clone(), TLSHandshakeTimeout: 10 * time.Second, MaxIdleConnsPerHost: 25,
			DialContext: dial,
		})
	}}
	t.renew()
	cfg := rest.CopyConfig(id.config)
	if !strings.Contains(cfg.Host, "://") {
		cfg.Host = "https://" + cfg.Host
	}
	cfg.TLSClientConfig, cfg.Proxy, cfg.Transport = rest.TLSClientConfig{}, nil, t
	return cfg, t, nil
}

// rotatingTransport sends each request with the newest certificate. Requests in
// flight stay on connections with the previous one.
type rotatingTransport struct {
	newTransport func() *http.Transport

	mu      sync.Mutex
	current *http.Transport
}

// RoundTrip implements http.RoundTripper.
func (t *rotatingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	t.mu.Lock()
	now := t.current
	t.mu.Unlock()
	return now.RoundTrip(r)
}

// renew closes idle connections, and opens new ones for new requests.
func (t *rotatingTransport) renew() {
	t.mu.Lock()
	before := t.current
	t.current = t.newTransport()
	t.mu.Unlock()
	if before != nil {
		before.CloseIdleConnections()
	}
}

package cluster

import (
	"cmp"
	"fmt"
	"net/http"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

// RateLimit limits requests. The zero value is the kubelet's 50 requests per second, and
// 100 at once.
type RateLimit struct{ QPS, Burst int }

// The kubelet's limits.
const (
	requestsPerSecond = 50
	requestsBurst     = 100
)

// unlimited is for heartbeats, which must not wait for other requests.
var unlimited = RateLimit{QPS: -1}

// client has one REST client per API group, each with its own rate limit.
type client struct {
	core, coordination, certificates, node, storage rest.Interface
	// nodeStatus and events are core with limits of their own.
	nodeStatus, events rest.Interface
	// authentication and authorization do not use the shared connection: many
	// clients of this node must not make the API server appear unreachable.
	authentication, authorization rest.Interface
	// server is the address of the API server.
	server string
}

// connect reads the credentials and the address of the API server. It opens no
// connection.
func (a *Adapter) connect() error {
	cfg, id, err := readIdentity(a.cfg.Kubeconfig, a.cfg.Certificates, a.name, a.cfg.Log)
	if err != nil {
		return err
	}
	a.certificates = newCertificates(a, id)
	if id != nil {
		if cfg, a.certificates.transport, err = id.clientConfig(a.certificates.client.Certificate,
			a.connection.conns.dial); err != nil {
			return fmt.Errorf("--kubeconfig %s: %w", a.cfg.Kubeconfig, err)
		}
	}
	cfg.UserAgent = a.cfg.UserAgent
	c, err := newClient(cfg, a.connection, a.cfg.Requests, a.cfg.EventRequests)
	if err != nil {
		return fmt.Errorf("--kubeconfig %s: %w", a.cfg.Kubeconfig, err)
	}
	a.setClient(c)
	return nil
}

// addDrivers adds CSIDrivers to a scheme. The other types of the group would be in the program too.
func addDrivers(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(storagev1.SchemeGroupVersion, &storagev1.CSIDriver{}, &storagev1.CSIDriverList{})
	metav1.AddToGroupVersion(scheme, storagev1.SchemeGroupVersion)
	return nil
}

// newClient creates the clients of each group on the shared connection.
func newClient(cfg *rest.Config, link *connection, requests, events RateLimit) (*client, error) {
	cfg.Dial = link.conns.dial
	aside := rest.CopyConfig(cfg)
	cfg.Wrap(link.wrap)
	cfg.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	cfg.ContentType = runtime.ContentTypeProtobuf
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		v1.AddToScheme, coordinationv1.AddToScheme, certificatesv1.AddToScheme, nodev1.AddToScheme,
		authenticationv1.AddToScheme, authorizationv1.AddToScheme, addDrivers,
	} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	codecs := serializer.NewCodecFactory(scheme).WithoutConversion()
	// All groups share one transport, and so one TCP connection.
	transport, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, err
	}
	apart, err := rest.HTTPClientFor(aside)
	if err != nil {
		return nil, err
	}
	clientFor := func(transport *http.Client, path string, gv schema.GroupVersion, limit RateLimit) rest.Interface {
		group := rest.CopyConfig(cfg)
		group.QPS, group.Burst = float32(cmp.Or(limit.QPS, requestsPerSecond)), cmp.Or(limit.Burst, requestsBurst)
		group.APIPath, group.GroupVersion, group.NegotiatedSerializer = path, &gv, codecs
		c, groupErr := rest.RESTClientForConfigAndClient(group, transport)
		if groupErr != nil {
			err = groupErr
		}
		return c
	}
	c := &client{
		server:         cfg.Host,
		core:           clientFor(transport, "/api", v1.SchemeGroupVersion, requests),
		nodeStatus:     clientFor(transport, "/api", v1.SchemeGroupVersion, unlimited),
		events:         clientFor(transport, "/api", v1.SchemeGroupVersion, events),
		coordination:   clientFor(transport, "/apis", coordinationv1.SchemeGroupVersion, unlimited),
		certificates:   clientFor(transport, "/apis", certificatesv1.SchemeGroupVersion, requests),
		node:           clientFor(transport, "/apis", nodev1.SchemeGroupVersion, requests),
		storage:        clientFor(transport, "/apis", storagev1.SchemeGroupVersion, requests),
		authentication: clientFor(apart, "/apis", authenticationv1.SchemeGroupVersion, requests),
		authorization:  clientFor(apart, "/apis", authorizationv1.SchemeGroupVersion, requests),
	}
	return c, err
}

package cluster

import (
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// The kubelet's limits of its requests a second.
const (
	requestsPerSecond = 50
	requestsBurst     = 100
)

// client speaks to the API server, one REST client a group.
type client struct {
	core, coordination rest.Interface
	// server is the API server's address.
	server string
}

// connect reads the kubeconfig. It opens no connection: an API server that is
// away is met by the first request.
func connect(kubeconfig, userAgent string, link *link) (*client, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig %s: %w", kubeconfig, err)
	}
	cfg.UserAgent = userAgent
	c, err := newClient(cfg, link)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig %s: %w", kubeconfig, err)
	}
	return c, nil
}

// newClient makes the clients of each group. Their requests go over the link.
func newClient(cfg *rest.Config, link *link) (*client, error) {
	cfg.Wrap(link.over)
	cfg.Dial = link.connections.dial
	cfg.QPS, cfg.Burst = requestsPerSecond, requestsBurst
	cfg.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	cfg.ContentType = runtime.ContentTypeProtobuf
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1.AddToScheme, coordinationv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	codecs := serializer.NewCodecFactory(scheme).WithoutConversion()
	// One transport, and so one connection, serves both.
	transport, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, err
	}
	of := func(path string, gv schema.GroupVersion) rest.Interface {
		group := rest.CopyConfig(cfg)
		group.APIPath, group.GroupVersion, group.NegotiatedSerializer = path, &gv, codecs
		c, groupErr := rest.RESTClientForConfigAndClient(group, transport)
		if groupErr != nil {
			err = groupErr
		}
		return c
	}
	c := &client{server: cfg.Host, core: of("/api", v1.SchemeGroupVersion), coordination: of("/apis", coordinationv1.SchemeGroupVersion)}
	return c, err
}

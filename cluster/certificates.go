package cluster

import (
	"context"
	"crypto/tls"
	"net/netip"
	"sync"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/podstead/podstead/cluster/certificate"
)

// certificates are those of this node that the cluster signs.
type certificates struct {
	*Adapter
	id *identity
	// client is the client certificate, serving that of the kubelet API port; nil
	// for those that are not managed here.
	client, serving *certificate.Manager
	transport       *rotatingTransport
	// ready is closed once there are credentials.
	ready chan struct{}
	once  sync.Once
}

// newCertificates creates the managers. The client certificate is managed if there
// is an identity.
func newCertificates(a *Adapter, id *identity) *certificates {
	c := &certificates{Adapter: a, id: id, ready: make(chan struct{})}
	settings := &a.cfg.Certificates
	if id != nil {
		c.client = certificate.New(certificate.Config{
			Store: id.store, Current: id.current, Log: a.cfg.Log, OnRefused: c.onRefused("client"), OnRenewed: c.renewed,
			Subject: func() (certificate.Subject, bool) {
				return certificate.Subject{User: userPrefix + a.name, Group: nodesGroup}, settings.Rotate ||
					c.client.Certificate() == nil
			},
			Signer: &certificateRequests{
				Adapter: a, signer: certificatesv1.KubeAPIServerClientKubeletSignerName, requester: c.requester,
				usages:   []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
				onSigned: func() error { return id.writeKubeconfig(a.cfg.Kubeconfig) },
			},
		})
	}
	if id == nil || id.current != nil {
		c.markReady()
	}
	if settings.Serving {
		store := certificate.Store{Dir: settings.Directory, Name: servingName}
		current, _ := store.Load() // an unreadable certificate is requested again
		if id != nil && len(id.earlier) > 0 {
			current = nil // it is of an earlier cluster
		}
		c.serving = certificate.New(certificate.Config{
			Store: store, Current: current, Log: a.cfg.Log, OnRefused: c.onRefused("serving"), OnRenewed: func() {},
			Subject: c.servingSubject,
			Signer: &certificateRequests{
				Adapter: a, signer: certificatesv1.KubeletServingSignerName,
				requester: func() (*client, error) { return a.client, nil },
				usages:    []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
			},
		})
	}
	return c
}

// run manages them until the context ends.
func (c *certificates) run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	if c.client != nil {
		wg.Go(func() { c.client.Run(ctx) })
	}
	if c.serving == nil {
		return
	}
	select {
	case <-c.ready:
		c.serving.Run(ctx)
	case <-ctx.Done():
	}
}

func (c *certificates) markReady() { c.once.Do(func() { close(c.ready) }) }

// renewed is called when there is a new client certificate.
func (c *certificates) renewed() {
	c.transport.renew()
	c.markReady()
}

// check compares the certified with the present addresses.
func (c *certificates) check() {
	if c.serving != nil {
		c.serving.Check()
	}
}

// requester returns the client for requests of the client certificate: that of the
// node, or while it has no valid certificate that of the bootstrap kubeconfig. It
// reads that file again, since bootstrap tokens expire.
func (c *certificates) requester() (*client, error) {
	current := c.client.Certificate()
	bootstrap := c.cfg.Certificates.Bootstrap
	if bootstrap == "" || current != nil && !certificate.Expired(current, time.Now()) {
		return c.Adapter.client, nil
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", bootstrap)
	if err != nil {
		return nil, err
	}
	cfg.UserAgent = c.cfg.UserAgent
	return newClient(cfg, c.connection, RateLimit{}, RateLimit{})
}

// servingSubject returns the names and addresses for the serving certificate.
func (c *certificates) servingSubject() (certificate.Subject, bool) {
	s := certificate.Subject{User: userPrefix + c.name, Group: nodesGroup}
	for _, a := range c.cfg.Node().Status.Addresses {
		switch a.Type {
		case v1.NodeHostName, v1.NodeInternalDNS, v1.NodeExternalDNS:
			s.Names = append(s.Names, a.Address)
		case v1.NodeInternalIP, v1.NodeExternalIP:
			if ip, err := netip.ParseAddr(a.Address); err == nil {
				s.Addresses = append(s.Addresses, ip.Unmap())
			}
		}
	}
	// Without an address the node cannot be reached.
	return s, len(s.Addresses) > 0
}

// onRefused reports why there is no certificate for now.
func (c *certificates) onRefused(what string) func(error) {
	return func(err error) {
		c.cfg.Log.Warn("Request for the "+what+" certificate failed, retrying with backoff", "err", err)
		c.cfg.Events.Event(nil, v1.EventTypeWarning, "CertificateRefused",
			"request for the "+what+" certificate of this node failed: "+err.Error())
	}
}

// ServingCertificate returns the certificate that the cluster signed for the
// kubelet API port; nil if there is none.
func (a *Adapter) ServingCertificate() *tls.Certificate {
	if a.certificates.serving == nil {
		return nil
	}
	return a.certificates.serving.Certificate()
}

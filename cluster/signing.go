package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/cluster/certificate"
)

const (
	// asksAgain is how long a request is reflector before it is looked for again,
	// with what proves us by then.
	watchDuration = 5 * time.Minute
	// lastRefusal is how rarely one is repeated that the API server refuses to take.
	maxSigningRetry = time.Minute
)

// signing has certificates signed through the API. What is asked for waits there
// until somebody approves and signs it, or an API server answers at all.
type certificateRequests struct {
	*Adapter
	// signer is the name of who signs, usages is what the certificate is for.
	signer string
	usages []certificatesv1.KeyUsage
	// asking is who asks.
	requester func() (*client, error)
	// signed is called before a certificate is taken; nil calls nothing.
	onSigned func() error
}

var errRequestGone = errors.New("the CertificateSigningRequest was deleted")

// Sign implements certificate.Signer.
func (s *certificateRequests) Sign(ctx context.Context, r certificate.Request) ([]byte, error) {
	failures, told := 0, ""
	for {
		signed, err := s.await(ctx, r)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, certificate.ErrRefused):
			return nil, err
		case err == nil && signed != nil:
			if s.onSigned != nil {
				err = s.onSigned()
			}
			return signed, err
		case err == nil, errors.Is(err, errRequestGone):
			failures = 0
			continue
		case !isAnswer(err) && s.connection.retryAfter() > 0:
			if !s.connection.backoff(ctx, failures) {
				return nil, ctx.Err()
			}
			continue
		}
		failures++
		if err.Error() != told {
			told = err.Error()
			s.cfg.Log.Warn("Failed to request certificate, retrying", "signer", s.signer, "err", withRemedy(err))
		}
		wait := minRetryDelay
		for range failures {
			wait = min(2*wait, maxSigningRetry)
		}
		if !sleep(ctx, jittered(wait)) {
			return nil, ctx.Err()
		}
	}
}

// explained has the remedy with an error.
func withRemedy(err error) error {
	switch {
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%w; the token or certificate in the kubeconfig may have expired; a new --bootstrap-kubeconfig is read at the next attempt", err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w; bind its group to the ClusterRole system:node-bootstrapper", err)
	}
	return err
}

// await asks for the certificate and waits for it; nil if it should be asked for
// again.
func (s *certificateRequests) await(ctx context.Context, r certificate.Request) ([]byte, error) {
	c, err := s.requester()
	if err != nil {
		return nil, err
	}
	made, err := s.create(ctx, c, r)
	if err != nil {
		return nil, err
	}
	if signed, err := decision(made); signed != nil || err != nil {
		return signed, err
	}
	s.cfg.Log.Info("Waiting for the certificate to be signed; to approve it, run: kubectl certificate approve "+r.Name, "signer", s.signer)
	ctx, cancel := context.WithTimeout(ctx, watchDuration)
	defer cancel()
	changed := make(chan struct{}, 1)
	requests := newReflector[*certificatesv1.CertificateSigningRequest](c.certificates, "certificatesigningrequests", "metadata.name="+r.Name, s.connection, func() { notify(changed) })
	var wg sync.WaitGroup
	wg.Go(func() { requests.Run(ctx) })
	defer wg.Wait()
	defer cancel()
	for {
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, nil
		}
		known, synced := requests.Objects()
		if !synced {
			continue
		}
		request := known["/"+r.Name]
		if request == nil {
			return nil, errRequestGone
		}
		if signed, err := decision(request); signed != nil || err != nil {
			return signed, err
		}
	}
}

// ask makes the request in the API, or finds the one that was made before.
func (s *certificateRequests) create(ctx context.Context, c *client, r certificate.Request) (*certificatesv1.CertificateSigningRequest, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	wanted := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: r.Name},
		Spec:       certificatesv1.CertificateSigningRequestSpec{Request: r.PEM, SignerName: s.signer, Usages: s.usages},
	}
	made := &certificatesv1.CertificateSigningRequest{}
	err := c.certificates.Post().Resource("certificatesigningrequests").Body(wanted).Do(ctx).Into(made)
	if !apierrors.IsAlreadyExists(err) {
		return made, err
	}
	if err := c.certificates.Get().Resource("certificatesigningrequests").Name(r.Name).Do(ctx).Into(made); err != nil {
		return nil, err
	}
	if !certificate.Same(made.Spec.Request, r.PEM) || made.Spec.SignerName != s.signer {
		return nil, fmt.Errorf("%w: %s was created by another requester", certificate.ErrRefused, r.Name)
	}
	return made, nil
}

// judged is the certificate of a request, nil while it is neither signed nor
// refused.
func decision(r *certificatesv1.CertificateSigningRequest) ([]byte, error) {
	for _, c := range r.Status.Conditions {
		if (c.Type == certificatesv1.CertificateDenied || c.Type == certificatesv1.CertificateFailed) && c.Status != v1.ConditionFalse {
			return nil, fmt.Errorf("%w: %s is %s: %s: %s; another request follows later, or when podstead restarts",
				certificate.ErrRefused, r.Name, c.Type, c.Reason, c.Message)
		}
	}
	if len(r.Status.Certificate) == 0 {
		return nil, nil
	}
	return r.Status.Certificate, nil
}

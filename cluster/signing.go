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
	"github.com/podstead/podstead/internal/retry"
	"github.com/podstead/podstead/internal/wakeup"
)

const (
	// watchDuration is how long a request is watched before it is read again, with
	// the credentials at that time.
	watchDuration = 5 * time.Minute
	// maxSigningRetry is the longest delay between attempts that the API server
	// refuses.
	maxSigningRetry = time.Minute
)

// certificateRequests gets certificates signed through the API. A request waits
// there until it is approved and signed, or until an API server responds at all.
type certificateRequests struct {
	*Adapter
	// signer is the signer name, usages are the usages of the certificate.
	signer string
	usages []certificatesv1.KeyUsage
	// requester returns the client to use.
	requester func() (*client, error)
	// onSigned is called before a certificate is used; nil is no call.
	onSigned func() error
}

var errRequestGone = errors.New("the CertificateSigningRequest was deleted")

// Sign implements certificate.Signer.
func (s *certificateRequests) Sign(ctx context.Context, r certificate.Request) ([]byte, error) {
	failures, logged := 0, ""
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
		case !isResponse(err) && s.connection.retryAfter() > 0:
			if !s.connection.backoff(ctx, failures) {
				return nil, ctx.Err()
			}
			continue
		}
		failures++
		if err.Error() != logged {
			logged = err.Error()
			s.cfg.Log.Warn("Failed to request certificate, retrying", "signer", s.signer, "err", withRemedy(err))
		}
		if !retry.Sleep(ctx, jittered(retry.Delay(failures+1, minRetryDelay, maxSigningRetry))) {
			return nil, ctx.Err()
		}
	}
}

// withRemedy adds the remedy to an error.
func withRemedy(err error) error {
	switch {
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%w; the token or certificate in the kubeconfig may have expired; a new --bootstrap-kubeconfig "+
			"is read at the next attempt", err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w; bind its group to the ClusterRole system:node-bootstrapper", err)
	}
	return err
}

// await creates the request and waits for the certificate; nil if it should be
// requested again.
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
	s.cfg.Log.Info("Waiting for the certificate to be signed; to approve it, run: kubectl certificate approve "+r.Name,
		"signer", s.signer)
	ctx, cancel := context.WithTimeout(ctx, watchDuration)
	defer cancel()
	changed := wakeup.NewSignal()
	requests := newReflector[*certificatesv1.CertificateSigningRequest](c.certificates, "certificatesigningrequests",
		"metadata.name="+r.Name, s.connection, changed.Notify)
	var wg sync.WaitGroup
	wg.Go(func() { requests.Run(ctx) })
	defer wg.Wait()
	defer cancel()
	for {
		select {
		case <-changed.C():
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

// create creates the request in the API, or finds an earlier one.
func (s *certificateRequests) create(ctx context.Context, c *client,
	r certificate.Request) (*certificatesv1.CertificateSigningRequest, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	desired := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: r.Name},
		Spec:       certificatesv1.CertificateSigningRequestSpec{Request: r.PEM, SignerName: s.signer, Usages: s.usages},
	}
	made := &certificatesv1.CertificateSigningRequest{}
	err := c.certificates.Post().Resource("certificatesigningrequests").Body(desired).Do(ctx).Into(made)
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

// decision returns the certificate of a request, nil while it is neither signed
// nor denied.
func decision(r *certificatesv1.CertificateSigningRequest) ([]byte, error) {
	for _, c := range r.Status.Conditions {
		if (c.Type == certificatesv1.CertificateDenied || c.Type == certificatesv1.CertificateFailed) &&
			c.Status != v1.ConditionFalse {
			return nil, fmt.Errorf("%w: %s is %s: %s: %s; another request follows later, or when podstead restarts",
				certificate.ErrRefused, r.Name, c.Type, c.Reason, c.Message)
		}
	}
	if len(r.Status.Certificate) == 0 {
		return nil, nil
	}
	return r.Status.Certificate, nil
}

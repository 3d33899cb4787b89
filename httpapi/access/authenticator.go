package access

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
)

// Authenticator finds out who sends a request over TLS. Nobody is let in
// unknown.
type Authenticator struct {
	// Authorities give those whose client certificates count, as of now. They
	// are asked at each request, so that an authority that was taken away ends
	// what it signed on open connections too.
	Authorities []Authority
	// Tokens are nil for none.
	Tokens *TokenFile
	// Reviews asks a cluster about callers; nil asks nobody.
	Reviews *Reviews
}

// Authority signs client certificates that count.
type Authority struct {
	Pool func() (*x509.CertPool, error)
	// Foreign is one that is not podstead's own: a cluster may know the users.
	External bool
}

// Caller is who sent the request; the error tells the client why nobody is
// known.
func (a *Authenticator) Caller(r *http.Request) (Caller, error) {
	var faults []error
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		caller, err := a.byCertificate(r.TLS.PeerCertificates)
		if err == nil {
			return caller, nil
		}
		faults = append(faults, err)
	}
	if token, ok := bearerToken(r); ok {
		caller, err := a.byToken(r.Context(), token)
		if err == nil {
			return caller, nil
		}
		faults = append(faults, err)
	}
	if faults == nil {
		return Caller{}, errors.New("who are you? send a client certificate or a bearer token; podstead kubeconfig makes a certificate")
	}
	return Caller{}, errors.Join(faults...)
}

// bearerOf is whose token it is.
func (a *Authenticator) byToken(ctx context.Context, token string) (Caller, error) {
	asks := a.Reviews != nil && a.Reviews.cfg.Authentication
	if a.Tokens == nil && !asks {
		return Caller{}, errors.New("no tokens are in use here; --token-auth-file names some")
	}
	var fault error
	if a.Tokens != nil {
		caller, err := a.Tokens.Caller(token)
		if err == nil || !asks {
			return caller, err
		}
		fault = err
	}
	caller, err := a.Reviews.authenticate(ctx, token)
	if err != nil {
		return Caller{}, errors.Join(fault, err)
	}
	return caller, nil
}

// certified is the user of a certificate that counts.
func (a *Authenticator) byCertificate(chain []*x509.Certificate) (Caller, error) {
	now := time.Now()
	cert := chain[0]
	// What is wrong with the time is told, whoever signed it.
	if now.After(cert.NotAfter) {
		return Caller{}, fmt.Errorf("the client certificate expired at %s; podstead kubeconfig makes another", cert.NotAfter.Format(time.RFC3339))
	}
	for _, authority := range a.Authorities {
		pool, err := authority.Pool()
		if err != nil {
			continue // one that cannot be read trusts nobody
		}
		if verify(chain, pool, now) != nil {
			continue
		}
		user, groups := cert.Subject.CommonName, cert.Subject.Organization
		if a.Reviews == nil || !authority.External {
			return Caller{User: user, Classes: classesOfGroups(groups, false)}, nil
		}
		return a.Reviews.caller(authenticationv1.UserInfo{Username: user, Groups: groups}, classesOfGroups(groups, a.Reviews.cfg.Authorization)), nil
	}
	return Caller{}, errors.New("the client certificate is not signed by an authority that counts here, or not any more; podstead kubeconfig makes another")
}

// bearer is the token of a request.
func bearerToken(r *http.Request) (string, bool) {
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	return token, ok && strings.EqualFold(scheme, "Bearer") && token != ""
}

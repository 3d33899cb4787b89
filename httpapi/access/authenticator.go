package access

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Authenticator finds out who sends a request over TLS. Nobody is let in
// unknown.
type Authenticator struct {
	// Authorities give those whose client certificates count, as of now. They
	// are asked at each request, so that an authority that was taken away ends
	// what it signed on open connections too.
	Authorities []func() (*x509.CertPool, error)
	// Tokens are nil for none.
	Tokens *TokenFile
}

// Caller is who sent the request; the error tells the client why nobody is
// known.
func (a *Authenticator) Caller(r *http.Request) (Caller, error) {
	var faults []error
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		caller, err := a.certified(r.TLS.PeerCertificates)
		if err == nil {
			return caller, nil
		}
		faults = append(faults, err)
	}
	if token, ok := bearer(r); ok {
		if a.Tokens == nil {
			faults = append(faults, errors.New("no tokens are in use here; --token-auth-file names some"))
		} else if caller, err := a.Tokens.Caller(token); err != nil {
			faults = append(faults, err)
		} else {
			return caller, nil
		}
	}
	if faults == nil {
		return Caller{}, errors.New("who are you? send a client certificate or a bearer token; podstead kubeconfig makes a certificate")
	}
	return Caller{}, errors.Join(faults...)
}

// certified is the user of a certificate that counts.
func (a *Authenticator) certified(chain []*x509.Certificate) (Caller, error) {
	now := time.Now()
	cert := chain[0]
	// What is wrong with the time is told, whoever signed it.
	if now.After(cert.NotAfter) {
		return Caller{}, fmt.Errorf("the client certificate expired at %s; podstead kubeconfig makes another", cert.NotAfter.Format(time.RFC3339))
	}
	for _, authority := range a.Authorities {
		pool, err := authority()
		if err != nil {
			continue // one that cannot be read trusts nobody
		}
		if verify(chain, pool, now) == nil {
			return Caller{User: cert.Subject.CommonName, May: ofGroups(cert.Subject.Organization)}, nil
		}
	}
	return Caller{}, errors.New("the client certificate is not signed by an authority that counts here, or not any more; podstead kubeconfig makes another")
}

// bearer is the token of a request.
func bearer(r *http.Request) (string, bool) {
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	return token, ok && strings.EqualFold(scheme, "Bearer") && token != ""
}

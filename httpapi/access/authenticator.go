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

// Authenticator authenticates requests over TLS. It rejects anonymous requests.
type Authenticator struct {
	// Authorities are the CAs of client certificates. They are read for each request, so
	// that removing a CA invalidates its certificates on open connections too. A connection
	// is verified once by each pool.
	Authorities []Authority
	// Tokens is nil if there is no token file.
	Tokens *TokenFile
	// Reviews lets a cluster authenticate callers; nil for none.
	Reviews *Reviews
}

// Authority is a CA whose client certificates are accepted.
type Authority struct {
	Pool func() (*x509.CertPool, error)
	// External is true for a CA other than podstead's own. A cluster may know its users.
	External bool
	// Revoked reports whether a certificate of this CA was revoked; nil if none can be.
	Revoked func(*x509.Certificate) bool
}

// Caller returns the caller of a request on a connection; nil if it is unknown. The error
// reports why authentication failed.
func (a *Authenticator) Caller(r *http.Request, conn *Connection) (Caller, error) {
	var errs []error
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		caller, err := a.byCertificate(r.TLS.PeerCertificates, conn)
		if err == nil {
			return caller, nil
		}
		errs = append(errs, err)
	}
	if token, ok := bearerToken(r); ok {
		caller, err := a.byToken(r.Context(), token)
		if err == nil {
			return caller, nil
		}
		errs = append(errs, err)
	}
	if errs == nil {
		return Caller{}, errors.New("a client certificate or bearer token is required; podstead kubeconfig creates a " +
			"certificate")
	}
	return Caller{}, errors.Join(errs...)
}

// byToken returns the owner of a bearer token.
func (a *Authenticator) byToken(ctx context.Context, token string) (Caller, error) {
	review := a.Reviews != nil && a.Reviews.cfg.Authentication
	if a.Tokens == nil && !review {
		return Caller{}, errors.New("bearer tokens are not enabled; enable them with --token-auth-file")
	}
	var fileErr error
	if a.Tokens != nil {
		caller, err := a.Tokens.Caller(token)
		// While the file is invalid, any token may be one of its tokens, which are secret to
		// the cluster.
		if err == nil || !review || errors.Is(err, errTokenFileInvalid) {
			return caller, err
		}
		fileErr = err
	}
	caller, err := a.Reviews.authenticate(ctx, token)
	if err != nil {
		return Caller{}, errors.Join(fileErr, err)
	}
	return caller, nil
}

// byCertificate returns the user of a valid client certificate.
func (a *Authenticator) byCertificate(chain []*x509.Certificate, conn *Connection) (Caller, error) {
	if err := checkChain(chain); err != nil {
		return Caller{}, err
	}
	now := time.Now()
	cert := chain[0]
	// Expiry is reported no matter which CA signed the certificate.
	if now.After(cert.NotAfter) {
		return Caller{}, fmt.Errorf("the client certificate expired at %s; podstead kubeconfig creates a new one",
			cert.NotAfter.Format(time.RFC3339))
	}
	for _, authority := range a.Authorities {
		pool, err := authority.Pool()
		if err != nil {
			continue // a CA that cannot be read accepts no certificate
		}
		until, err := conn.verify(chain, pool, authority.External, now)
		if err != nil || now.After(until) || authority.Revoked != nil && authority.Revoked(cert) {
			continue
		}
		user, groups := cert.Subject.CommonName, cert.Subject.Organization
		caller := Caller{User: user, Classes: classesOfGroups(groups, false)}
		if a.Reviews != nil && authority.External {
			caller = a.Reviews.caller(authenticationv1.UserInfo{Username: user, Groups: groups},
				classesOfGroups(groups, a.Reviews.cfg.Authorization))
		}
		caller.Expires, caller.source, caller.Credential = until, fromCertificate, CredentialID(cert)
		return caller, nil
	}
	return Caller{}, errors.New("the client certificate is not signed by an accepted CA, or was revoked; podstead " +
		"kubeconfig creates a new one")
}

// Recheck returns an error if the credential with which a caller was authenticated has
// expired, was removed, or does not grant the same permissions any more. It asks no
// cluster: what a cluster has allowed to begin may go on.
func (a *Authenticator) Recheck(r *http.Request, conn *Connection, caller Caller) error {
	var now Caller
	var err error
	switch caller.source {
	case fromCertificate:
		now, err = a.byCertificate(r.TLS.PeerCertificates, conn)
	case fromTokenFile:
		token, _ := bearerToken(r)
		now, err = a.Tokens.Caller(token)
	default:
		return nil
	}
	if err == nil && (now.User != caller.User || !now.Classes.Has(caller.Classes)) {
		err = fmt.Errorf("the permissions of user %q have changed", caller.User)
	}
	return err
}

// bearerToken returns the bearer token of a request.
func bearerToken(r *http.Request) (string, bool) {
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	return token, ok && strings.EqualFold(scheme, "Bearer") && token != ""
}

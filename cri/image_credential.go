package cri

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstead/podstead/cri/pullrecords"
)

// Credential is one way to log in to a registry. Printing it shows nothing
// secret.
type Credential struct {
	// Origin names its source in messages: "Secret shop/login".
	Origin string
	// Secret is the Secret that has it; the zero value is the node, whose credentials
	// are for all pods.
	Secret pullrecords.Secret
	// Username and Password, or a token that replaces both.
	Username, Password           string
	IdentityToken, RegistryToken string
}

// String returns the origin.
func (c Credential) String() string { return c.Origin }

// GoString returns the origin.
func (c Credential) GoString() string { return c.Origin }

// LogValue returns the origin.
func (c Credential) LogValue() slog.Value { return slog.StringValue(c.Origin) }

func (c Credential) auth() *runtimeapi.AuthConfig {
	return &runtimeapi.AuthConfig{Username: c.Username, Password: c.Password, IdentityToken: c.IdentityToken,
		RegistryToken: c.RegistryToken}
}

// redact removes the secrets of the credential from a text.
func (c Credential) redact(text string) string {
	for _, secret := range []string{c.Password, c.IdentityToken, c.RegistryToken} {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "[hidden]")
		}
	}
	return text
}

// recorded returns what the records of pulls know of the credential.
func (c Credential) recorded() pullrecords.Credential {
	text, err := json.Marshal([]string{c.Username, c.Password, c.IdentityToken, c.RegistryToken})
	if err != nil {
		panic("cri: strings do not marshal: " + err.Error())
	}
	return pullrecords.Credential{Secret: c.Secret, Sum: sha256.Sum256(text)}
}

// PullCredentials are the credentials for a pod's images. The zero value pulls
// without logging in.
type PullCredentials struct {
	// Revision identifies the pod's own credentials: a pull that failed with
	// another revision is retried at once.
	Revision string
	// Lookup returns the credentials for an image, in the order in which they are
	// tried, none to pull without. The error reports which credentials could not be
	// looked up in addition to those. It is called when a pull is due, and may
	// take long; nil finds none.
	Lookup func(ctx context.Context, image string) ([]Credential, error)
	// Own returns those of them that are in the pod's own Secrets, at once; nil finds
	// none.
	Own func(image string) []Credential
}

// recorded returns the pod's own credentials for an image as the records have them.
func (l PullCredentials) recorded(image string) []pullrecords.Credential {
	if l.Own == nil {
		return nil
	}
	var all []pullrecords.Credential
	for _, c := range l.Own(image) {
		all = append(all, c.recorded())
	}
	return all
}

func (l PullCredentials) lookup(ctx context.Context, image string) ([]Credential, error) {
	if l.Lookup == nil {
		return nil, nil
	}
	return l.Lookup(ctx, image)
}

// credentialsKey identifies a list of credentials.
func credentialsKey(list []Credential) string {
	if len(list) == 0 {
		return ""
	}
	type plain Credential // without the methods that redact
	all := make([]plain, len(list))
	for i, c := range list {
		all[i] = plain(c)
	}
	text, err := json.Marshal(all)
	if err != nil {
		return "" // strings always marshal
	}
	sum := sha256.Sum256(text)
	return string(sum[:])
}

// pullError is a pull that failed with each credential. It contains what is not
// secret of the runtime's errors, and wraps none.
type pullError struct {
	text string
	// lost reports that the response to one of the pulls was lost.
	lost bool
}

func (e *pullError) Error() string { return e.text }

// lostPull reports whether the runtime may have pulled in spite of an error.
func lostPull(err error) bool {
	var tried *pullError
	return uncertain(err) || errors.As(err, &tried) && tried.lost
}

// recordedPulls pulls images and records each pull.
type recordedPulls struct {
	service ImageRuntime
	records *pullrecords.Records
}

// pull pulls an image with one of a list of credentials. If mustRecord is set it does not
// pull what it cannot record.
func (p recordedPulls) pull(ctx context.Context, image string, list []Credential, mustRecord bool) (string, error) {
	pull, err := p.records.Begin(ctx, image)
	if err != nil && mustRecord {
		pull.Failed(false)
		return "", err
	}
	ref, used, err := pullWith(ctx, p.service, image, list)
	if err != nil {
		pull.Failed(lostPull(err) || ctx.Err() != nil)
		return "", err
	}
	pull.Succeeded(ctx, ref, used.recorded())
	return ref, nil
}

// pullWith tries each credential in order until one pull succeeds, as the kubelet
// does; without any it does not log in. It returns the credential that was accepted.
func pullWith(ctx context.Context, service ImageRuntime, image string, list []Credential) (ref string, used Credential,
	err error) {
	if len(list) == 0 {
		ref, err = service.PullImage(ctx, image, nil)
		return ref, Credential{}, err
	}
	var failures []string
	lost := false
	for _, c := range list {
		ref, err := service.PullImage(ctx, image, c.auth())
		if err == nil {
			return ref, c, nil
		}
		failures = append(failures, fmt.Sprintf("with the credential of %s: %s", c.Origin, c.redact(detail(err))))
		lost = lost || uncertain(err)
		if ctx.Err() != nil || errors.Is(err, ErrUnavailable) {
			break
		}
	}
	return "", Credential{}, &pullError{strings.Join(failures, "; "), lost}
}

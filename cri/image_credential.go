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
)

// Credential is one way to log in to a registry. Printing it shows nothing
// secret.
type Credential struct {
	// Origin names its source in messages: "Secret shop/login".
	Origin string
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
	return &runtimeapi.AuthConfig{Username: c.Username, Password: c.Password, IdentityToken: c.IdentityToken, RegistryToken: c.RegistryToken}
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

// PullCredentials are the credentials for a pod's images. The zero value pulls
// without logging in.
type PullCredentials struct {
	// Revision identifies the pod's own credentials: a pull that failed with
	// another revision is retried at once.
	Revision string
	// Lookup returns the credentials for an image, in the order in which they are
	// tried, none to pull without. The error says which credentials could not be
	// looked up in addition to those. It is called when a pull is due, and may
	// take long; nil finds none.
	Lookup func(ctx context.Context, image string) ([]Credential, error)
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
type pullError struct{ text string }

func (e *pullError) Error() string { return e.text }

// pullWith tries each credential in order until one pull succeeds, as the kubelet
// does; without any it does not log in.
func pullWith(ctx context.Context, service ImageRuntime, image string, list []Credential) (string, error) {
	if len(list) == 0 {
		return service.PullImage(ctx, image, nil)
	}
	var failures []string
	for _, c := range list {
		ref, err := service.PullImage(ctx, image, c.auth())
		if err == nil {
			return ref, nil
		}
		failures = append(failures, fmt.Sprintf("with the credential of %s: %s", c.Origin, c.redact(detail(err))))
		if ctx.Err() != nil || errors.Is(err, ErrUnavailable) {
			break
		}
	}
	return "", &pullError{strings.Join(failures, "; ")}
}

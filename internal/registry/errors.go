package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"

	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"
)

// The classes of errors, for errors.Is.
var (
	// ErrNotFound: the registry responds, and has no such repository, tag or digest.
	ErrNotFound = errors.New("not found")
	// ErrUnauthorized: the registry wants another credential. Many registries also respond
	// so for a repository that does not exist.
	ErrUnauthorized = errors.New("unauthorized")
	// ErrUnreachable: no response, or one that asks to try again later. A retry may help.
	ErrUnreachable = errors.New("unreachable")
	// ErrTooLarge: more than the caller allows.
	ErrTooLarge = errors.New("too large")
	// ErrDigestMismatch: the content does not have the digest it was requested by.
	ErrDigestMismatch = errors.New("digest mismatch")
)

// Error is a failed request. errors.Is finds its class, if it has one.
type Error struct {
	class error
	text  string
}

// Error reports what failed, without the reference and without secrets.
func (e *Error) Error() string { return e.text }

// Unwrap returns the class, nil without one.
func (e *Error) Unwrap() error { return e.class }

func errorf(class error, format string, args ...any) error {
	return &Error{class: class, text: fmt.Sprintf(format, args...)}
}

// maxErrorText limits what a registry reports about its error, in bytes.
const maxErrorText = 300

// classify returns the error of a request as an *Error. The caller's own cancellation
// stays as it is.
func classify(ctx context.Context, err error, timeout time.Duration) error {
	var known *Error
	var response *errcode.ErrorResponse
	var request *url.Error
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &known):
		return known
	case errors.Is(err, errdef.ErrNotFound):
		return errorf(ErrNotFound, "the registry does not have it")
	case errors.Is(err, errdef.ErrSizeExceedsLimit):
		return errorf(ErrTooLarge, "the answer is larger than the limit")
	case errors.Is(err, auth.ErrBasicCredentialNotFound):
		return errorf(ErrUnauthorized, "the registry requires a login, and there is no credential for it")
	case errors.As(err, &response):
		return ofResponse(response)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errorf(ErrUnreachable, "the registry's answer ended early")
	case errors.Is(err, context.DeadlineExceeded):
		return errorf(ErrUnreachable, "the registry did not answer within %v", timeout)
	case errors.As(err, &request):
		// Its URL may contain a token: that of a redirect, or of an authorization server.
		for errors.As(err, &request) {
			err = request.Err
		}
		return errorf(ErrUnreachable, "cannot reach the registry: %s", printable(err.Error()))
	}
	return errorf(nil, "cannot read from the registry: %s", printable(err.Error()))
}

// ofResponse returns the error of a response other than 200.
func ofResponse(r *errcode.ErrorResponse) error {
	text := fmt.Sprintf("the registry answered with status %d %s", r.StatusCode, http.StatusText(r.StatusCode))
	if len(r.Errors) > 0 {
		text += ": " + printable(r.Errors.Error())
	}
	switch {
	case r.StatusCode == http.StatusUnauthorized || r.StatusCode == http.StatusForbidden:
		return errorf(ErrUnauthorized, "%s", text)
	case r.StatusCode == http.StatusNotFound:
		return errorf(ErrNotFound, "%s", text)
	case r.StatusCode == http.StatusTooManyRequests || r.StatusCode >= http.StatusInternalServerError:
		return errorf(ErrUnreachable, "%s", text)
	}
	return errorf(nil, "%s", text)
}

// printable bounds a text that the registry may have written, in one line.
func printable(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
	if len(text) > maxErrorText {
		text = strings.ToValidUTF8(text[:maxErrorText], "") + "…"
	}
	return text
}

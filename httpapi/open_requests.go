package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/podstead/podstead/httpapi/access"
)

// errExpired ends the watches and sessions of a client.
var errExpired = errors.New("the client certificate has expired")

// openRequests are the requests in progress over TLS. A watch or a session may take hours,
// so that its client is authenticated again when a credential was removed or has expired.
type openRequests struct {
	recheck func(*http.Request, access.Caller) error

	mu sync.Mutex
	// generation counts the calls of Recheck.
	generation int
	all        map[*openRequest]struct{}
}

// openRequest is a request in progress.
type openRequest struct {
	cancel context.CancelCauseFunc
	// request and caller are set when the client was authenticated.
	request *http.Request
	caller  access.Caller
	expiry  *time.Timer
}

type openRequestKey struct{}

// track makes the requests of a handler cancelable.
func (o *openRequests) track(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancelCause(r.Context())
		defer cancel(nil)
		open := &openRequest{cancel: cancel}
		defer o.remove(open)
		h.ServeHTTP(w, r.WithContext(context.WithValue(ctx, openRequestKey{}, open)))
	})
}

// authenticate authenticates a request, which ends when the credential of its caller is not
// valid any more.
func (o *openRequests) authenticate(r *http.Request, authenticate authenticate) (access.Caller, error) {
	open, ok := r.Context().Value(openRequestKey{}).(*openRequest)
	if !ok {
		return authenticate(r)
	}
	for {
		generation := o.currentGeneration()
		caller, err := authenticate(r)
		if err != nil {
			return caller, err
		}
		if o.add(open, r, caller, generation) {
			return caller, nil
		}
		// A credential was removed in the meantime, maybe this one.
	}
}

func (o *openRequests) currentGeneration() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.generation
}

// add adds an authenticated request, unless Recheck was called since a generation.
func (o *openRequests) add(open *openRequest, r *http.Request, caller access.Caller, generation int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if generation != o.generation {
		return false
	}
	open.request, open.caller = r, caller
	if !caller.Expires.IsZero() {
		open.expiry = time.AfterFunc(time.Until(caller.Expires), func() { open.cancel(errExpired) })
	}
	o.all[open] = struct{}{}
	return true
}

func (o *openRequests) remove(open *openRequest) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.all, open)
	if open.expiry != nil {
		open.expiry.Stop()
	}
}

// Recheck ends the requests whose credentials are not valid any more. It is called after
// one may have been removed.
func (o *openRequests) Recheck() {
	o.mu.Lock()
	o.generation++
	open := make([]*openRequest, 0, len(o.all))
	for request := range o.all {
		open = append(open, request)
	}
	o.mu.Unlock()
	for _, request := range open {
		if err := o.recheck(request.request, request.caller); err != nil {
			request.cancel(fmt.Errorf("the credential of the client is not valid any more: %w", err))
		}
	}
}

package httpapi

import (
	"net/http"

	"github.com/podstead/podstead/httpapi/access"
)

// limiter limits the number of concurrent requests of one kind. Some slots are reserved
// for callers on the unix socket, so that remote clients cannot lock them out.
type limiter struct{ shared, reserved chan struct{} }

func newLimiter(shared, reserved int) limiter {
	return limiter{make(chan struct{}, shared), make(chan struct{}, reserved)}
}

// acquire takes a slot for a request and returns the function that releases it, nil if no
// slot is free.
func (l limiter) acquire(r *http.Request) (release func()) {
	select {
	case l.shared <- struct{}{}:
		return func() { <-l.shared }
	default:
	}
	if !access.CallerFrom(r.Context()).Local {
		return nil
	}
	select {
	case l.reserved <- struct{}{}:
		return func() { <-l.reserved }
	default:
		return nil
	}
}

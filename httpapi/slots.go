package httpapi

import (
	"net/http"

	"github.com/podstead/podstead/httpapi/access"
)

// slots bound how much of one kind goes on at once. Some are kept for whoever
// may use the socket, so that nobody else can keep him out.
type limiter struct{ shared, reserved chan struct{} }

func newLimiter(all, own int) limiter {
	return limiter{make(chan struct{}, all), make(chan struct{}, own)}
}

// take takes one for a request and returns what gives it back, nil if there is
// none.
func (s limiter) acquire(r *http.Request) (free func()) {
	select {
	case s.shared <- struct{}{}:
		return func() { <-s.shared }
	default:
	}
	if !access.CallerFrom(r.Context()).Local {
		return nil
	}
	select {
	case s.reserved <- struct{}{}:
		return func() { <-s.reserved }
	default:
		return nil
	}
}

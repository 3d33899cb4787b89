package httpapi

import (
	"net/http"

	"github.com/podstead/podstead/httpapi/access"
)

// slots bound how much of one kind goes on at once. Some are kept for whoever
// may use the socket, so that nobody else can keep him out.
type slots struct{ all, own chan struct{} }

func newSlots(all, own int) slots {
	return slots{make(chan struct{}, all), make(chan struct{}, own)}
}

// take takes one for a request and returns what gives it back, nil if there is
// none.
func (s slots) take(r *http.Request) (free func()) {
	select {
	case s.all <- struct{}{}:
		return func() { <-s.all }
	default:
	}
	if !access.Of(r.Context()).Local {
		return nil
	}
	select {
	case s.own <- struct{}{}:
		return func() { <-s.own }
	default:
		return nil
	}
}

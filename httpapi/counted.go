package httpapi

import (
	"net/http"
	"strings"

	"github.com/podstead/podstead/httpapi/access"
)

// Request is what is counted of a request.
type Request struct {
	Method string
	// Path is the route's without the first slash, up to what varies.
	Path string
	// LongRunning: it is answered for as long as the caller likes.
	LongRunning bool
}

// counted are the routes with each request told of.
func observe(routes []Route, serving func(Request) (done func())) []Route {
	if serving == nil {
		return routes
	}
	all := make([]Route, 0, len(routes))
	for _, route := range routes {
		path, _, _ := strings.Cut(route.Path, "/{")
		path = strings.Trim(path, "/")
		handle, streams := route.Handle, route.Access == access.Exec
		route.Handle = func(w http.ResponseWriter, r *http.Request) {
			q := r.URL.Query()
			long := streams || q.Has("watch") || q.Has("follow")
			defer serving(Request{Method: r.Method, Path: path, LongRunning: long})()
			handle(w, r)
		}
		all = append(all, route)
	}
	return all
}

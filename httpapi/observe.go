package httpapi

import (
	"net/http"
	"strings"

	"github.com/podstead/podstead/httpapi/access"
)

// Request describes a request for the metrics.
type Request struct {
	Method string
	// Path is the path of the route up to its first parameter, without the leading
	// slash.
	Path string
	// LongRunning is true for watches, followed logs and sessions, which last as long as
	// the client wants.
	LongRunning bool
}

// observe returns the table with a call of onRequest for each request; nil observes
// nothing.
func observe(table []Route, onRequest func(Request) (done func())) []Route {
	if onRequest == nil {
		return table
	}
	rows := make([]Route, 0, len(table))
	for _, route := range table {
		path, _, _ := strings.Cut(route.Path, "/{")
		path = strings.Trim(path, "/")
		handle, session := route.Handle, route.Access == access.Exec
		route.Handle = func(w http.ResponseWriter, r *http.Request) {
			q := r.URL.Query()
			longRunning := session || q.Has("watch") || q.Has("follow")
			defer onRequest(Request{Method: r.Method, Path: path, LongRunning: longRunning})()
			handle(w, r)
		}
		rows = append(rows, route)
	}
	return rows
}

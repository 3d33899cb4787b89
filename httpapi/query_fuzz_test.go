package httpapi

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/podstead/podstead/httpapi/access"
)

// FuzzQueries sends arbitrary paths and queries to the table of routes and to what reads
// queries. A handler must see only names, and a number in a log request is what the query reports.
func FuzzQueries(f *testing.F) {
	f.Add("/containerLogs/default/web/main", "follow=true&tailLines=10&sinceSeconds=5&timestamps=1&limitBytes=7")
	f.Add("/containerLogs/default/web/main", "tailLines=-1&sinceTime=2026-01-02T03:04:05Z&previous=maybe")
	f.Add("/exec/default/web/main", "command=sh&command=-c&stdin=1&stdout=1&tty=true")
	f.Add("/containerLogs/%2e%2e/a%2fb/c", "%zz&;=")
	table := []Route{{"GET", "/containerLogs/{namespace}/{pod}/{container}", access.Logs, nil},
		{"GET", "/exec/{namespace}/{pod}/{container}", access.Exec, nil}}
	f.Fuzz(func(t *testing.T, path, query string) {
		for i := range table {
			table[i].Handle = func(_ http.ResponseWriter, r *http.Request) {
				for _, parameter := range []string{"namespace", "pod", "container"} {
					if v := r.PathValue(parameter); v == "" || strings.ContainsAny(v, "/\x00") || v == ".." || len(v) > maxName {
						t.Errorf("%s is %q", parameter, v)
					}
				}
			}
		}
		r := httptest.NewRequest("GET", "/", nil)
		r.URL = &url.URL{Path: path, RawQuery: query}
		serveClasses(table, access.All).ServeHTTP(httptest.NewRecorder(), r)
		q := r.URL.Query()
		if req, _, err := logRequest(q); err == nil && req.Follow != nil && !q.Has("follow") {
			t.Errorf("%q follows", query)
		}
		if o := streamOptions(q); o.TTY && o.Stderr {
			t.Errorf("%q requests stderr of a terminal", query)
		}
	})
}

package httpapi

import "net/http"

// Access is what a caller must be allowed to do to use a route. A listener
// serves the routes of the classes it was opened for and no others.
type Access uint8

// The access classes.
const (
	// AccessHealth routes tell only whether the daemon lives.
	AccessHealth Access = 1 << iota
	// AccessRead routes show pods, their specs and faults.
	AccessRead
)

// Route is one row of the table.
type Route struct {
	Method string
	Path   string
	Access Access
	Handle http.HandlerFunc
}

// Sources are what the handlers read. All fields are needed.
type Sources struct {
	Pods      PodLister
	Manifests ManifestLister
	Health    HealthChecker
}

// Routes is the whole table.
func Routes(src Sources) []Route {
	return []Route{
		{"GET", "/healthz", AccessHealth, healthz(src.Health)},
		{"GET", "/healthz/ping", AccessHealth, healthz(nil)},
		{"GET", "/healthz/syncloop", AccessHealth, healthz(src.Health)},
		{"GET", "/pods", AccessRead, pods(src.Pods)},
		{"GET", "/podstead/v1/manifests", AccessRead, manifests(src.Manifests)},
	}
}

// handler serves the routes of the allowed classes. A known path with another
// method is answered with 405 by the mux, an unknown one with 404.
func handler(routes []Route, allowed Access) http.Handler {
	mux := http.NewServeMux()
	for _, r := range routes {
		if r.Access&allowed != 0 {
			mux.HandleFunc(r.Method+" "+r.Path, r.Handle)
		}
	}
	return mux
}

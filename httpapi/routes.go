package httpapi

import (
	"net/http"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// Access is what a caller must be allowed to do to use a route. A listener
// serves the routes of the classes it was opened for and no others.
type Access uint8

// The access classes.
const (
	// AccessHealth routes tell only whether the daemon lives.
	AccessHealth Access = 1 << iota
	// AccessRead routes show pods, their specs, events and faults.
	AccessRead
	// AccessLogs routes show what containers print. Programs print what no
	// spec shows, secrets too, so a listener that is open to readers of
	// states need not be open to readers of logs; with Kubernetes' RBAC,
	// pods/log is granted apart from pods as well.
	AccessLogs
	// AccessChange routes change something on the node.
	AccessChange
)

// Route is one row of the table.
type Route struct {
	// Method is empty if the handler sees to it.
	Method string
	Path   string
	Access Access
	Handle http.HandlerFunc
}

// Sources are what the handlers read. All fields are needed.
type Sources struct {
	Pods      PodLister
	Manifests ManifestLister
	Objects   ObjectLister
	Health    HealthChecker
	Events    EventLister
	Statuses  StatusReader
	Volumes   VolumeKeeper
	// LogDirectory is where the logs of a pod are.
	LogDirectory LogDirectory
	// ManifestName is a pod's name as its manifest has it.
	ManifestName func(pod *v1.Pod) string
	// Images keeps the images of the runtime.
	Images ImageKeeper
	// Kube answers /api, /apis and /version.
	Kube http.Handler
}

// Routes is the whole table.
func Routes(src Sources) []Route {
	logs, kube := containerLogs(src), src.Kube.ServeHTTP
	return []Route{
		{"GET", "/healthz", AccessHealth, healthz(src.Health)},
		{"GET", "/healthz/ping", AccessHealth, healthz(nil)},
		{"GET", "/healthz/syncloop", AccessHealth, healthz(src.Health)},
		{"GET", "/pods", AccessRead, pods(src.Pods)},
		{"GET", "/podstead/v1/manifests", AccessRead, manifests(src.Manifests)},
		{"GET", "/podstead/v1/objects", AccessRead, objects(src.Objects)},
		{"GET", "/podstead/v1/events", AccessRead, events(src.Events)},
		{"GET", "/podstead/v1/images", AccessRead, images(src.Images)},
		{"POST", "/podstead/v1/images/prune", AccessChange, pruneImages(src.Images)},
		{"GET", "/podstead/v1/volumes", AccessRead, volumes(src.Volumes)},
		{"DELETE", "/podstead/v1/volumes/{namespace}/{name}", AccessChange, removeVolume(src.Volumes)},
		{"GET", "/containerLogs/{namespace}/{pod}/{container}", AccessLogs, logs},
		{"GET", "/api/v1/namespaces/{namespace}/pods/{pod}/log", AccessLogs, podLog(src, logs)},
		{"", "/api", AccessRead, kube},
		{"", "/api/", AccessRead, kube},
		{"", "/apis", AccessRead, kube},
		{"", "/apis/", AccessRead, kube},
		{"", "/version", AccessRead, kube},
	}
}

// handler serves the routes of the allowed classes. A known path with another
// method is answered with 405 by the mux, an unknown one with 404.
func handler(routes []Route, allowed Access) http.Handler {
	mux := http.NewServeMux()
	for _, r := range routes {
		if r.Access&allowed != 0 {
			mux.HandleFunc(strings.TrimSpace(r.Method+" "+r.Path), r.Handle)
		}
	}
	return mux
}

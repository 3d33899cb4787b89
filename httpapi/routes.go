package httpapi

import (
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/httpapi/access"
	"github.com/podstead/podstead/httpapi/kubeapi"
)

// Route is one row of the table.
type Route struct {
	// Method is empty if the handler sees to it.
	Method string
	Path   string
	Access access.Class
	Handle http.HandlerFunc
}

// Sources are what the handlers read. All fields but Cluster are needed.
type Sources struct {
	Pods      PodLister
	Manifests ManifestLister
	Objects   ObjectLister
	Health    HealthChecker
	Events    EventLister
	Statuses  StatusReader
	Volumes   VolumeManager
	// Restarter runs pods again.
	Restarter PodRestarter
	// Cluster is nil if the box has joined none.
	Cluster ClusterMember
	// LogDirectory is where the logs of a pod are.
	LogDirectory LogDirectory
	// ManifestName is a pod's name as its manifest has it.
	ManifestName func(pod *v1.Pod) string
	// Images keeps the images of the runtime.
	Images ImageManager
	// Streams opens sessions with containers, of which one in which nothing
	// moves for StreamIdle ends.
	Streams    ContainerStreams
	StreamIdle time.Duration
	// Kubeconfigs lets clients that cannot use the socket in; set by New.
	Kubeconfigs KubeconfigMaker
	Kubelet     Kubelet
	// Kube answers /api, /apis and /version.
	Kube http.Handler
	// Stats and Usage tell what is used, in two forms.
	Stats StatsReader
	Usage kubeapi.UsageReader
	// Metrics are what Prometheus scrapes.
	Metrics Metrics
}

// Routes is the whole table.
func Routes(src Sources) []Route {
	logs, kube, sessions := containerLogs(src), src.Kube.ServeHTTP, newSessions(src)
	return slices.Concat(streamRoutes(sessions), statsRoutes(src), kubeletRoutes(src.Kubelet, sessions), []Route{
		{"GET", "/healthz", access.Health, healthz(src.Health)},
		{"GET", "/healthz/ping", access.Health, healthz(nil)},
		{"GET", "/healthz/log", access.Health, healthz(nil)},
		{"GET", "/healthz/syncloop", access.Health, healthz(src.Health)},
		{"GET", "/pods", access.Read, pods(src.Pods)},
		{"GET", "/podstead/v1/manifests", access.Read, manifests(src.Manifests)},
		{"GET", "/podstead/v1/objects", access.Read, objects(src.Objects)},
		{"GET", "/podstead/v1/events", access.Read, events(src.Events)},
		{"GET", "/podstead/v1/images", access.Read, images(src.Images)},
		{"POST", "/podstead/v1/images/prune", access.Admin, pruneImages(src.Images)},
		{"POST", "/podstead/v1/images/pull", access.Admin, pullImage(src.Images)},
		{"POST", "/podstead/v1/images/load", access.Admin, loadImages(src.Images)},
		{"POST", "/podstead/v1/namespaces/{namespace}/pods/{pod}/restart", access.Admin, restartPod(src)},
		{"POST", "/podstead/v1/cluster/leave", access.Admin, leaveCluster(src.Cluster)},
		{"GET", "/podstead/v1/volumes", access.Read, volumes(src.Volumes)},
		{"DELETE", "/podstead/v1/volumes/{namespace}/{name}", access.Admin, removeVolume(src.Volumes)},
		{"POST", "/podstead/v1/kubeconfig", access.Admin, kubeconfig(src.Kubeconfigs)},
		{"DELETE", "/podstead/v1/kubeconfig", access.Admin, revokeKubeconfigs(src.Kubeconfigs)},
		{"GET", "/containerLogs/{namespace}/{pod}/{container}", access.Logs, logs},
		{"GET", "/api/v1/namespaces/{namespace}/pods/{pod}/log", access.Logs, podLog(src, logs)},
		{"", "/api", access.Read, kube},
		{"", "/api/", access.Read, kube},
		{"", "/apis", access.Read, kube},
		{"", "/apis/", access.Read, kube},
		{"", "/openapi/v3", access.Read, kube},
		{"", "/openapi/v3/", access.Read, kube},
		{"", "/version", access.Read, kube},
	})
}

// streamRoutes are the sessions with containers: the kubelet's paths, then those
// of the Kubernetes API. The handlers see to the method: kubectl asks for SPDY
// with POST and for a WebSocket with GET.
func streamRoutes(s *sessions) (all []Route) {
	const kubePod = "/api/v1/namespaces/{namespace}/pods/{pod}"
	for _, r := range []Route{
		{Path: "/exec/{namespace}/{pod}/{container}", Handle: s.exec},
		{Path: "/exec/{namespace}/{pod}/{uid}/{container}", Handle: s.exec},
		{Path: "/attach/{namespace}/{pod}/{container}", Handle: s.attach},
		{Path: "/attach/{namespace}/{pod}/{uid}/{container}", Handle: s.attach},
		{Path: "/portForward/{namespace}/{pod}", Handle: s.portForward},
		{Path: "/portForward/{namespace}/{pod}/{uid}", Handle: s.portForward},
		{Path: kubePod + "/exec", Handle: s.exec},
		{Path: kubePod + "/attach", Handle: s.attach},
		{Path: kubePod + "/portforward", Handle: s.portForward},
	} {
		for _, method := range []string{"GET", "POST"} {
			all = append(all, Route{method, r.Path, access.Exec, s.limited(r.Handle)})
		}
	}
	return append(all,
		Route{"POST", "/run/{namespace}/{pod}/{container}", access.Exec, s.limited(s.run)},
		Route{"POST", "/run/{namespace}/{pod}/{uid}/{container}", access.Exec, s.limited(s.run)},
	)
}

// identify says who sent a request, nil if that cannot be told; the error is
// what the caller is told then.
type authenticate func(*http.Request) (access.Caller, error)

// everybody takes each caller for one who may use the given classes.
func anonymous(may access.Class) authenticate {
	return func(*http.Request) (access.Caller, error) { return access.Caller{Classes: may}, nil }
}

// handler serves the routes of the classes that a listener was opened for. A
// route of another class is as unknown as one that there is not, so that no
// wider pattern answers in its place. Of the rest a caller may use those of his
// own classes. A known path with another method is answered with 405 by the
// mux, an unknown one with 404.
func handler(routes []Route, allowed access.Class, who authenticate) http.Handler {
	mux := http.NewServeMux()
	for _, route := range routes {
		parameters := parametersOf(route.Path)
		mux.HandleFunc(strings.TrimSpace(route.Method+" "+route.Path), func(w http.ResponseWriter, r *http.Request) {
			if !allowed.Has(route.Access) {
				http.NotFound(w, r)
				return
			}
			caller, why, err := access.CallerFrom(r.Context()).Authorize(r, route.Access, route.Path)
			switch {
			case err != nil:
				writeError(w, r, http.StatusServiceUnavailable, err.Error())
			case why != "":
				writeError(w, r, http.StatusForbidden, why)
			case !validNames(r, parameters):
				writeError(w, r, http.StatusNotFound, "a name in the path is none that an object can have")
			default:
				route.Handle(w, r.WithContext(access.WithCaller(r.Context(), caller)))
			}
		})
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller, err := who(r)
		switch {
		case errors.Is(err, access.ErrClusterUnavailable):
			writeError(w, r, http.StatusServiceUnavailable, err.Error())
			return
		case err != nil:
			writeError(w, r, http.StatusUnauthorized, err.Error())
			return
		}
		// A copy has the bound: the server looks at the body of its own to see
		// whether the caller still waits for leave to send it.
		r = r.WithContext(access.WithCaller(r.Context(), caller))
		limitBody(w, r)
		mux.ServeHTTP(w, r)
	})
}

var parameter = regexp.MustCompile(`\{(\w+)\}`)

// parametersOf are the names of the parameters of a path.
func parametersOf(path string) (names []string) {
	for _, m := range parameter.FindAllStringSubmatch(path, -1) {
		names = append(names, m[1])
	}
	return names
}

// maxName is the length of the longest names of Kubernetes, in bytes.
const maxName = 253

var name = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]*$`)

// named says whether each parameter could be a name or a UID. What has a slash
// in it, or is a step upwards, never is one, and no handler needs to fear it.
func validNames(r *http.Request, parameters []string) bool {
	for _, p := range parameters {
		if v := r.PathValue(p); len(v) > maxName || !name.MatchString(v) {
			return false
		}
	}
	return true
}

// refuse tells why a request is not answered: to clients of the Kubernetes API
// in its own form, to others as text.
func writeError(w http.ResponseWriter, r *http.Request, code int, message string) {
	if !strings.HasPrefix(r.URL.Path, "/api") && !strings.HasPrefix(r.URL.Path, "/openapi") && r.URL.Path != "/version" {
		http.Error(w, message, code)
		return
	}
	reason := map[int]metav1.StatusReason{
		http.StatusUnauthorized: metav1.StatusReasonUnauthorized, http.StatusServiceUnavailable: metav1.StatusReasonServiceUnavailable,
	}[code]
	if reason == "" {
		reason = metav1.StatusReasonForbidden
	}
	writeStatus(w, code, reason, "%s", message)
}

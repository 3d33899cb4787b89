package httpapi

import (
	"net/http"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/api"
	"github.com/podstead/podstead/httpapi/access"
	"github.com/podstead/podstead/httpapi/kubeapi"
)

// Route is one row of the table.
type Route struct {
	// Method is the HTTP method. It is empty if the handler checks the method itself.
	Method string
	Path   string
	// Access is the class that a caller needs.
	Access access.Class
	Handle http.HandlerFunc
}

// Sources are what the handlers read and act on, one field per dependency of the table. All
// fields but Cluster are required.
type Sources struct {
	Pods      PodLister
	Manifests ManifestLister
	Objects   ObjectLister
	// Health are the checks of /healthz.
	Health    []HealthCheck
	Events    EventLister
	Statuses  StatusReader
	Volumes   VolumeManager
	Images    ImageManager
	Restarter PodRestarter
	// Starts are how long pods took to start.
	Starts StartReader
	// Rollouts manages the revisions of static pods.
	Rollouts RolloutManager
	// AutoUpdates updates the images of pods.
	AutoUpdates AutoUpdater
	// Cluster is nil if the node has not joined a cluster.
	Cluster ClusterMember
	// LogDirectory returns the directory of a pod's logs.
	LogDirectory LogDirectory
	// ManifestName returns the name of a pod in its manifest.
	ManifestName func(pod *v1.Pod) string
	// Streams opens sessions with containers. A session without traffic for StreamIdle
	// ends.
	Streams    ContainerStreams
	StreamIdle time.Duration
	Kubelet    Kubelet
	// Kube serves /api, /apis, /openapi and /version.
	Kube http.Handler
	// Stats and Usage report the resource usage, in two formats.
	Stats StatsReader
	Usage kubeapi.Usage
	// Metrics are the endpoints that Prometheus scrapes.
	Metrics Metrics

	// kubeconfigs issues kubeconfigs; New sets it.
	kubeconfigs *remote
}

// getOrPost are the methods of a session: kubectl upgrades to SPDY with POST and to
// WebSocket with GET.
const getOrPost = "GET|POST"

// writeMethods are the methods that change an object of the Kubernetes API.
const writeMethods = "POST|PUT|PATCH|DELETE"

// Routes returns the table of all routes.
func Routes(src Sources) []Route {
	const (
		own     = api.Path
		kubePod = "/api/v1/namespaces/{namespace}/pods/{pod}"
		usage   = "/apis/metrics.k8s.io/v1beta1"
	)
	logs, kube, k, s := containerLogs(src), src.Kube.ServeHTTP, src.Kubelet, newSessions(src)
	nodeUsage, podUsage := kubeapi.UsageHandler(src.Usage, "nodes"), kubeapi.UsageHandler(src.Usage, "pods")
	exec, attach, portForward, run := s.limited(s.exec), s.limited(s.attach), s.limited(s.portForward), s.limited(s.run)
	return expandMethods(append(healthRoutes(src.Manifests, src.Health), []Route{
		// The kubelet's endpoints.
		{"GET", "/pods", access.Read, pods(src.Pods)},
		{"GET", "/runningpods/{$}", access.Read, runningPods(k.Running)},
		{"GET", "/spec/{$}", access.Read, spec(k.MachineInfo)},
		{"GET", "/configz", access.Read, configz(k.Config)},
		{"GET", "/containerLogs/{namespace}/{pod}/{container}", access.Logs, logs},
		{"GET", "/logs/", access.Admin, nodeLogs(k.LogRoot)},
		{"POST", "/checkpoint/{namespace}/{pod}/{container}", access.Admin, checkpoint(s, k)},
		{"", "/debug/pprof/", access.Admin, profiles(k.Profiling)},
		{getOrPost, "/exec/{namespace}/{pod}/{container}", access.Exec, exec},
		{getOrPost, "/exec/{namespace}/{pod}/{uid}/{container}", access.Exec, exec},
		{getOrPost, "/attach/{namespace}/{pod}/{container}", access.Exec, attach},
		{getOrPost, "/attach/{namespace}/{pod}/{uid}/{container}", access.Exec, attach},
		{getOrPost, "/portForward/{namespace}/{pod}", access.Exec, portForward},
		{getOrPost, "/portForward/{namespace}/{pod}/{uid}", access.Exec, portForward},
		{"POST", "/run/{namespace}/{pod}/{container}", access.Exec, run},
		{"POST", "/run/{namespace}/{pod}/{uid}/{container}", access.Exec, run},

		// Metrics and resource usage.
		{"GET", "/metrics", access.Metrics, src.Metrics.Kubelet},
		{"GET", "/metrics/resource", access.Metrics, src.Metrics.Resource},
		{"GET", "/metrics/probes", access.Metrics, src.Metrics.Probes},
		{"GET", "/metrics/cadvisor", access.Metrics, src.Metrics.Cadvisor},
		{"GET", "/stats/summary", access.Metrics, statsSummary(src.Stats)},
		{"GET", usage + "/nodes", access.Metrics, nodeUsage},
		{"GET", usage + "/nodes/{name}", access.Metrics, nodeUsage},
		{"GET", usage + "/pods", access.Metrics, podUsage},
		{"GET", usage + "/namespaces/{namespace}/pods", access.Metrics, podUsage},
		{"GET", usage + "/namespaces/{namespace}/pods/{name}", access.Metrics, podUsage},

		// The Kubernetes API. Its handler checks the method.
		{"GET", kubePod + "/log", access.Logs, podLog(src, logs)},
		{getOrPost, kubePod + "/exec", access.Exec, exec},
		{getOrPost, kubePod + "/attach", access.Exec, attach},
		{getOrPost, kubePod + "/portforward", access.Exec, portForward},
		{writeMethods, "/api/v1/", access.Write, kube},
		{writeMethods, "/apis/", access.Write, kube},
		{"POST", "/apis/authentication.k8s.io/", access.Read, kube},
		{"POST", "/apis/authorization.k8s.io/", access.Read, kube},
		{"", "/api", access.Read, kube},
		{"", "/api/", access.Read, kube},
		{"", "/apis", access.Read, kube},
		{"", "/apis/", access.Read, kube},
		{"", "/openapi/v2", access.Read, kube},
		{"", "/openapi/v3", access.Read, kube},
		{"", "/openapi/v3/", access.Read, kube},
		{"", "/version", access.Read, kube},

		// podstead's own endpoints.
		{"GET", own + "/manifests", access.Read, manifests(src.Manifests)},
		{"GET", own + "/objects", access.Read, objects(src.Objects)},
		{"GET", own + "/events", access.Read, events(src.Events)},
		{"GET", own + "/images", access.Read, images(src.Images)},
		{"GET", own + "/images/archives", access.Read, imageArchives(src.Images)},
		{"POST", own + "/images/prune", access.Admin, pruneImages(src.Images)},
		{"POST", own + "/images/pull", access.Admin, pullImage(src.Images)},
		{"POST", own + "/images/load", access.Admin, loadImages(src.Images)},
		{"POST", own + "/namespaces/{namespace}/pods/{pod}/restart", access.Write, restartPod(src)},
		{"GET", own + "/starts", access.Read, podStarts(src.Pods, src.Starts)},
		{"GET", own + "/rollouts", access.Read, rollouts(src.Rollouts)},
		{"GET", own + "/namespaces/{namespace}/pods/{pod}/rollout/history", access.Read, rolloutHistory(src)},
		{"POST", own + "/namespaces/{namespace}/pods/{pod}/rollout/undo", access.Write, undoRollout(src)},
		{"POST", own + "/namespaces/{namespace}/pods/{pod}/rollout/retry", access.Write, retryRollout(src)},
		{"GET", own + "/auto-update", access.Read, autoUpdates(src.AutoUpdates)},
		{"POST", own + "/auto-update", access.Write, checkUpdates(src)},
		{"POST", own + "/cluster/leave", access.Admin, leaveCluster(src.Cluster)},
		{"GET", own + "/volumes", access.Read, volumes(src.Volumes)},
		{"DELETE", own + "/volumes/{namespace}/{name}", access.Admin, removeVolume(src.Volumes)},
		{"POST", own + "/kubeconfig", access.Admin, kubeconfig(src.kubeconfigs)},
		{"DELETE", own + "/kubeconfig", access.Admin, revokeKubeconfigs(src.kubeconfigs)},
		{"DELETE", own + "/kubeconfig/{id}", access.Admin, revokeKubeconfig(src.kubeconfigs)},
	}...))
}

// expandMethods returns one row for each method.
func expandMethods(table []Route) []Route {
	rows := make([]Route, 0, len(table))
	for _, row := range table {
		for method := range strings.SplitSeq(row.Method, "|") {
			row.Method = method
			rows = append(rows, row)
		}
	}
	return rows
}

// debugging are the paths that the kubelet counts as debugging in addition to logs and
// sessions, and /checkpoint, whose files contain the memory of a container.
var debugging = map[string]bool{
	"/logs/": true, "/runningpods/{$}": true, "/debug/pprof/": true, "/checkpoint/{namespace}/{pod}/{container}": true,
}

// withoutDebugging returns the table with the debugging handlers disabled, as the
// kubelet does with enableDebuggingHandlers: false.
func withoutDebugging(table []Route) []Route {
	rows := make([]Route, 0, len(table))
	for _, row := range table {
		if row.Access&(access.Logs|access.Exec) != 0 || debugging[row.Path] {
			row.Access = access.Health
			row.Handle = func(w http.ResponseWriter, _ *http.Request) {
				http.Error(w, "Debug endpoints are disabled.", http.StatusMethodNotAllowed)
			}
		}
		rows = append(rows, row)
	}
	return rows
}

package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/httpapi/kubeapi"
	"github.com/podstead/podstead/internal/statefile"
)

// fakeDaemon serves the API on a socket as podstead does, with the real Kubernetes API.
type fakeDaemon struct {
	t      testing.TB
	socket string
	// manifests and objects are the responses of /podstead/v1/…, as JSON.
	manifests, objects string
	// routes are additional routes.
	routes map[string]http.HandlerFunc
	// conditions are those of the node; nil for one that is ready.
	conditions []v1.NodeCondition
	configMaps []*v1.ConfigMap
	secrets    []*v1.Secret
	// watched receives a value for each watch request.
	watched chan struct{}

	mu     sync.Mutex
	pods   []v1.Pod
	events []v1.Event
	notify []chan struct{}
	stop   func()
}

func newFakeDaemon(t testing.TB, pods ...v1.Pod) *fakeDaemon {
	t.Helper()
	return &fakeDaemon{t: t, socket: filepath.Join(t.TempDir(), "s"), manifests: noFaults, objects: "[]", pods: pods,
		routes: map[string]http.HandlerFunc{}, watched: make(chan struct{}, 100)}
}

// start opens the socket; it can be called again after stop.
func (d *fakeDaemon) start() *fakeDaemon {
	d.t.Helper()
	ln, err := net.Listen("unix", d.socket)
	if err != nil {
		d.t.Fatal(err)
	}
	versions := kubeapi.OpenVersions(filepath.Join(filepath.Dir(d.socket), "versions"), statefile.Disk{})
	api := kubeapi.New(kubeapi.Config{Versions: versions, Version: "1.2.3", Sources: kubeapi.Sources{
		Pods:       kubeapi.PodSource(d.list, d.subscribe),
		Nodes:      kubeapi.NodeSource(d.node, nil),
		Namespaces: kubeapi.NamespaceSource(func() []string { return nil }, metav1.Now(), nil),
		Events:     kubeapi.EventSource(func() []v1.Event { return d.currentEvents() }, d.subscribe),
		ConfigMaps: kubeapi.ObjectSource(func() []*v1.ConfigMap { return d.configMaps }, d.subscribe),
		Secrets:    kubeapi.ObjectSource(func() []*v1.Secret { return d.secrets }, d.subscribe),
	}})
	mux := http.NewServeMux()
	mux.HandleFunc("/api/", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("watch") {
			d.watched <- struct{}{}
		}
		api.ServeHTTP(w, r)
	})
	mux.HandleFunc("GET /podstead/v1/manifests",
		func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(d.manifests)) })
	mux.HandleFunc("GET /podstead/v1/objects",
		func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(d.objects)) })
	for path, handle := range d.routes {
		mux.HandleFunc(path, handle)
	}
	ctx, cancel := context.WithCancel(context.Background())
	srv := &http.Server{Handler: mux}
	done := make(chan struct{})
	go func() { defer close(done); _ = api.Run(ctx) }()
	go func() { _ = srv.Serve(ln) }()
	d.stop = sync.OnceFunc(func() {
		_ = srv.Close()
		// Close does not know a listener that Serve has not received yet: the socket would remain.
		_ = ln.Close()
		cancel()
		<-done
	})
	d.t.Cleanup(func() { d.stop() })
	return d
}

func (d *fakeDaemon) node() *v1.Node {
	d.mu.Lock()
	defer d.mu.Unlock()
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	if node.Status.Conditions = d.conditions; d.conditions == nil {
		node.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}
	}
	return node
}

// setConditions changes the conditions of the node.
func (d *fakeDaemon) setConditions(list ...v1.NodeCondition) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.conditions = list
}

func (d *fakeDaemon) list() []*v1.Pod {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []*v1.Pod
	for i := range d.pods {
		all = append(all, d.pods[i].DeepCopy())
	}
	return all
}

func (d *fakeDaemon) currentEvents() []v1.Event {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.events)
}

func (d *fakeDaemon) subscribe() (<-chan struct{}, func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	ch := make(chan struct{}, 1)
	d.notify = append(d.notify, ch)
	return ch, func() {}
}

// change edits the pods and notifies watches.
func (d *fakeDaemon) change(edit func(pods []v1.Pod) []v1.Pod) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pods = edit(d.pods)
	for _, ch := range d.notify {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

// daemon serves pods and the manifests of /podstead/v1/manifests.
func daemon(t *testing.T, pods []v1.Pod, manifests string) (socket string) {
	t.Helper()
	d := newFakeDaemon(t, pods...)
	d.manifests = cmp.Or(manifests, noFaults)
	return d.start().socket
}

// daemonWithObjects serves objects only.
func daemonWithObjects(t *testing.T, objects string) (socket string) {
	t.Helper()
	d := newFakeDaemon(t)
	d.objects = objects
	var all []struct{ Kind, Namespace, Name string }
	if err := json.Unmarshal([]byte(objects), &all); err != nil {
		t.Fatal(err)
	}
	for _, o := range all {
		meta := metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name}
		switch o.Kind {
		case "ConfigMap":
			d.configMaps = append(d.configMaps, &v1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"a": "1"}})
		case "Secret":
			d.secrets = append(d.secrets, &v1.Secret{ObjectMeta: meta, Data: map[string][]byte{"password": []byte("x")}})
		}
	}
	return d.start().socket
}

// fullDaemon serves what describe, events and logs request. Logs are served by the given
// handler.
func fullDaemon(t *testing.T, pods []v1.Pod, logs http.HandlerFunc) (socket string) {
	t.Helper()
	d := newFakeDaemon(t, pods...)
	d.events = sampleEvents()
	d.manifests = `[{"source":"file","location":"/etc/pods","units":[
		{"name":"/etc/pods/web.yaml","digest":"sha256:12","pods":["default/web"]},
		{"name":"/etc/pods/bad.yaml","faults":["/etc/pods/bad.yaml:1: is wrong"]}]}]`
	if logs != nil {
		d.routes["GET /containerLogs/{namespace}/{pod}/{container}"] = logs
	}
	return d.start().socket
}

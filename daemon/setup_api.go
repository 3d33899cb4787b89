package daemon

import (
	"context"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/httpapi"
	"github.com/podstead/podstead/httpapi/kubeapi"
	"github.com/podstead/podstead/internal/buildinfo"
	"github.com/podstead/podstead/internal/usage"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/manifest/change"
	"github.com/podstead/podstead/node/cgroup"
	"github.com/podstead/podstead/node/stats/summary"
	"github.com/podstead/podstead/supervisor"
	"github.com/podstead/podstead/supervisor/manifestview"
	"github.com/podstead/podstead/supervisor/podephemeral"
)

// openAPI creates the API server and opens its listeners.
func (d *daemon) openAPI(ctx context.Context) error {
	o, p, client := d.opts, &d.observers, d.runtime.Client
	kube := d.newKubeAPI()
	d.start(kube.Run)
	volumes := d.newVolumeView()
	stats := summary.Reader{NodeName: d.nodeName, Collector: p.stats, Age: usageAge, DiskAge: o.Stats.DiskAge,
		Claims: volumes.Usage, Pods: d.sup.Pods}
	manifests := d.newManifestView()
	d.api = httpapi.New(
		httpapi.Config{
			Socket: o.API.Socket, HealthAddress: o.API.HealthAddress, ReadOnlyAddress: o.Remote.ReadOnlyAddress,
			Remote: remoteConfig(o, d.nodeName, p.addresses, d.member, d.disk), Log: d.log,
			OnRequest: requestCounter(p.counters), OnListener: listenerReporter(p),
		},
		httpapi.Sources{
			Pods: syncedPods{d.sup}, Manifests: manifests, Objects: manifests, Restarter: d.sup, Starts: d.sup,
			AutoUpdates: d.node.updater, Rollouts: d.sources.rollouts,
			Health: []httpapi.HealthCheck{{Name: "log", Check: d.logOutput.Check},
				{Name: "syncloop", Check: d.sup.SyncLoopHealthy}},
			Events: p.events, Statuses: p.statuses, ManifestName: manifest.BaseName, Kube: kube, Images: d.node.imageView,
			Streams: containerStreams{client, p.pleg}, StreamIdle: o.API.StreamIdle,
			Stats: stats.Read, Usage: d.usage(), Metrics: d.newMetrics(volumes),
			Kubelet: kubeletView(o, cgroup.DetectSettings().V2, client, p.pleg), Cluster: clusterMember(d.member),
			Volumes:      volumes,
			LogDirectory: func(p *v1.Pod) string { return cri.LogDirectory(o.Paths.PodLogs, p.Namespace, p.Name, p.UID) },
		},
	)
	var err error
	d.listeners, err = d.api.Listen(ctx)
	return err
}

// usage is where the metrics API has the usage from.
func (d *daemon) usage() kubeapi.Usage {
	return kubeapi.Usage{
		Node: d.nodeName, Labels: d.admitNode.Labels, Pods: d.sup.Pods, ManifestName: manifest.BaseName,
		Read: func(ctx context.Context) (*usage.Node, *usage.Pods, error) {
			return d.observers.stats.Rates(ctx, usageAge)
		},
	}
}

// listenerReporter returns a function that records an event when a listener cannot be opened,
// and when it could be.
func listenerReporter(p *observers) func(string, error) {
	return func(what string, err error) {
		if err != nil {
			p.events.Event(nil, v1.EventTypeWarning, "FailedToListen", err.Error())
		} else {
			p.events.Event(nil, v1.EventTypeNormal, "Listening", "Opened "+what)
		}
	}
}

// newKubeAPI creates the part of the Kubernetes API that this node serves.
func (d *daemon) newKubeAPI() *kubeapi.API {
	versions := kubeapi.OpenVersions(filepath.Join(d.opts.Paths.Root, "resource-version"), d.disk)
	changed, events, objects := d.observers.statuses.Subscribe, d.observers.events, d.sources.config.Objects()
	pods := kubeapi.PodSource(d.sup.SyncedPods, changed)
	// A claim gets its directory when a pod is started that uses it.
	either := kubeapi.SubscribeToBoth(objects.Subscribe, changed)
	volumes := claimVolumes(d.sup)
	pods.Revisions = d.sources.config.PodDigests
	return kubeapi.New(kubeapi.Config{
		Versions: versions, Version: buildinfo.Version(),
		Writer: d.newManifestWriter(), Ephemeral: d.newEphemeralRequests(), Node: d.nodeName, ManifestName: manifest.BaseName,
		Manifest: d.newManifestView().Find,
		Remedy:   manifest.KindRemedy,
		Sources: kubeapi.Sources{
			Pods:       pods,
			Events:     kubeapi.EventSource(events.List, events.Subscribe),
			Nodes:      kubeapi.NodeSource(d.node.describe, changed),
			Namespaces: kubeapi.NamespaceSource(d.namespaces, metav1.Now(), changed),
			ConfigMaps: kubeapi.ObjectSource(objects.ConfigMaps, objects.Subscribe),
			Secrets:    kubeapi.ObjectSource(objects.Secrets, objects.Subscribe),
			Claims:     kubeapi.ClaimSource(objects.Claims, volumes, either),
			Services:   kubeapi.ObjectSource(objects.Services, objects.Subscribe),
			Volumes:    kubeapi.VolumeSource(objects.Volumes, objects.Claims, volumes, either),

			PriorityClasses: kubeapi.ObjectSource(objects.PriorityClasses, objects.Subscribe),
			RuntimeClasses:  kubeapi.ObjectSource(objects.RuntimeClasses, objects.Subscribe),
			StorageClasses:  kubeapi.ObjectSource(objects.StorageClasses, objects.Subscribe),
		},
		Groups: []metav1.APIResourceList{kubeapi.UsageGroup},
		Subresources: []metav1.APIResource{
			{Name: "nodes/proxy", Kind: "NodeProxyOptions", Verbs: metav1.Verbs{"create", "get"}},
			{Name: "pods/attach", Kind: "PodAttachOptions", Namespaced: true, Verbs: metav1.Verbs{"create", "get"}},
			{Name: "pods/ephemeralcontainers", Kind: "Pod", Namespaced: true, Verbs: metav1.Verbs{"get", "patch", "update"}},
			{Name: "pods/exec", Kind: "PodExecOptions", Namespaced: true, Verbs: metav1.Verbs{"create", "get"}},
			{Name: "pods/log", Kind: "Pod", Namespaced: true, Verbs: metav1.Verbs{"get"}},
			{Name: "pods/portforward", Kind: "PodPortForwardOptions", Namespaced: true, Verbs: metav1.Verbs{"create", "get"}},
		},
	})
}

// newManifestView creates what lists the sources and their manifests.
func (d *daemon) newManifestView() manifestview.View {
	o := &d.opts.Manifests
	return manifestview.View{Config: d.sources.config, Locations: map[manifest.Source]string{
		manifest.SourceFile: o.Path, manifest.SourceHTTP: o.RedactedURL(), manifest.SourceOCI: strings.Join(o.OCI, ", "),
		manifest.SourceAPI: d.opts.Cluster.Kubeconfig,
	}}
}

// newManifestWriter creates what changes manifests for clients of the API.
func (d *daemon) newManifestWriter() *change.Writer {
	o := &d.opts.Manifests
	return change.NewWriter(change.Config{
		Path: o.Path, Node: d.nodeName, Mode: manifest.Mode(o.Mode), Signed: len(o.Keys.For(manifest.SourceFile)) > 0,
		Config: d.sources.config,
		Grace:  d.sup.SetRemovalGrace, Events: d.observers.events,
	})
}

// newEphemeralRequests creates what changes ephemeral containers for clients of the API.
func (d *daemon) newEphemeralRequests() podephemeral.Requests {
	keys := &d.opts.Manifests.Keys
	return podephemeral.Requests{
		Update: d.sup.UpdateEphemeralContainers, Events: d.observers.events,
		Verified: func(source manifest.Source) bool { return len(keys.For(source)) > 0 },
	}
}

// namespaces returns those of all pods and objects, with repetitions.
func (d *daemon) namespaces() (names []string) {
	for _, pod := range d.sup.Pods() {
		names = append(names, pod.Namespace)
	}
	for _, o := range d.sources.config.Objects().List() {
		if o.Namespace != "" {
			names = append(names, o.Namespace)
		}
	}
	return names
}

// syncedPods lists pods for the API. Every route gets the same response, also right
// after a restart of the daemon.
type syncedPods struct{ sup *supervisor.Supervisor }

// Pods implements httpapi.PodLister.
func (p syncedPods) Pods() []*v1.Pod { return p.sup.SyncedPods() }

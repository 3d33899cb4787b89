package daemon

import (
	"context"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cluster"
	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/cri/archive"
	"github.com/podstead/podstead/cri/imagearchives"
	"github.com/podstead/podstead/cri/imageload"
	"github.com/podstead/podstead/gc"
	"github.com/podstead/podstead/internal/buildinfo"
	"github.com/podstead/podstead/internal/kubeversion"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/node/evict"
	"github.com/podstead/podstead/node/nodestatus"
	"github.com/podstead/podstead/node/oom"
	"github.com/podstead/podstead/node/shutdown"
	"github.com/podstead/podstead/supervisor"
	"github.com/podstead/podstead/supervisor/autoupdate"
	"github.com/podstead/podstead/supervisor/imageview"
	"github.com/podstead/podstead/supervisor/pleg"
)

// nodeServices look after the machine: they collect what is not used, evict pods
// under pressure, and terminate pods before a shutdown.
type nodeServices struct {
	logs    *gc.Logs
	images  *gc.Images
	updater *autoupdate.Updater
	// imageView lists images, and pulls and loads them on command.
	imageView imageview.View
	eviction  *evict.Evictor
	// guard is nil if pods are not terminated before a shutdown.
	guard *shutdown.Guard
	// inventory lists what the runtime has for the cluster; nil without one.
	inventory *nodestatus.Inventory
	// describe returns the node as it is now, describeForCluster the same without a fault of
	// the runtime that may pass.
	describe, describeForCluster func() *v1.Node
}

// createNodeServices creates them and registers with the supervisor those that
// decide about pods.
func (d *daemon) createNodeServices(context.Context) error {
	o, p, n := d.opts, &d.observers, &d.node
	n.logs = gc.NewLogs(gc.LogsConfig{
		Policy:  gc.LogPolicy{MaxSize: o.Garbage.LogMaxSize, MaxFiles: o.Garbage.LogMaxFiles, MaxPod: o.Garbage.PodLogsMax},
		Runtime: logRuntime{p.pleg, d.runtime.Client}, Root: o.Paths.PodLogs, Events: p.events, Log: d.log,
	})
	n.images = d.newImages()
	d.pulls.OnPulled(n.images.Pulled)
	d.pulls.OnMeasured(p.counters.ImagePulled)
	d.startImageStore()
	d.createAutoUpdate()
	loader := imageload.New(imageload.Config{
		Client: d.runtime.Client, Private: d.runtime.Private, Images: d.images, Imported: n.images.Pulled,
		Temp: archive.TempSpace{Dir: imageload.Dir(o.Paths.Root), Reserved: d.reservedSpace},
	})
	n.imageView = imageview.View{
		Node: n.images, Service: d.images, Records: d.pullRecords, Credentials: d.sup.PullCredentials, Loader: loader,
		Archives: d.archives.Status, Changed: d.sup.ImagesAdded, Loaded: n.updater.ImagesLoaded,
	}
	d.start(func(ctx context.Context) error {
		return d.archives.Run(ctx, imagearchives.Runtime{
			Images: d.runtime.Client, Loader: loader, Changed: d.sup.ImagesAdded, Loaded: n.imageView.Preloaded,
		})
	})
	n.eviction = d.startEviction()
	d.sup.OnObserved(d.runtime.Remember)
	d.sup.OnObserved(n.logs.Wake)
	d.sup.OnObserved(n.images.Wake)
	p.oomKills.OnKill(oom.Reporter{Containers: ownersOf(p.pleg), Pods: d.sup.Pods, Events: p.events,
		Relist: p.pleg.Relist}.Report)
	d.start(n.logs.Run, n.images.Run, p.oomKills.Run)
	if len(o.Shutdown.Policy) > 0 && !o.RunOnce {
		n.guard = shutdown.New(shutdown.Config{
			Policy: o.Shutdown.Policy, Logind: shutdown.SystemLogind{DropIn: shutdown.DropIn}, Pods: d.sup, Log: d.log,
		})
		d.start(n.guard.Run)
	}
	if o.Cluster.Kubeconfig != "" {
		n.inventory = nodestatus.NewInventory(runtimeInventory{d.runtime.Client}, o.Cluster.Images, d.log)
		d.start(n.inventory.Run)
	}
	describe := d.newDescribe()
	n.describe = func() *v1.Node { return describe(d.sup.Runtime()) }
	n.describeForCluster = func() *v1.Node {
		node := describe(d.sup.Runtime().Tolerant(time.Now()))
		if o.Cluster.ExternalCloud && len(o.Network.NodeIPs) > 0 {
			node.Annotations = map[string]string{cluster.AnnotationNodeIP: joinIPs(o.Network.NodeIPs)}
		}
		return node
	}
	return nil
}

// joinIPs returns addresses separated by commas.
func joinIPs(ips []netip.Addr) string {
	var texts []string
	for _, ip := range ips {
		texts = append(texts, ip.String())
	}
	return strings.Join(texts, ",")
}

// logRuntime gives log rotation what it needs of the runtime.
type logRuntime struct {
	*pleg.PLEG
	*cri.Client
}

// sourcesTimeout is how long after the start images are not removed for a full disk
// or by command while a source has neither delivered nor been restored. The regular
// collection waits for its first period.
const sourcesTimeout = 10 * time.Second

// imageMountTimeout limits how long the runtime may take to report where its images are.
const imageMountTimeout = 2 * time.Second

// reservedSpace returns what an image archive leaves free of the file system of the root directory.
func (d *daemon) reservedSpace(capacity int64) (bytes int64, setting string) {
	ctx, cancel := context.WithTimeout(context.Background(), imageMountTimeout)
	defer cancel()
	images, _ := d.runtime.Client.ImageMount(ctx) // not known while the runtime does not respond
	return d.opts.Eviction.ReservedSpace(d.opts.Paths.Root, images, capacity)
}

// newImages creates the image garbage collector.
func (d *daemon) newImages() *gc.Images {
	o, p, client := d.opts, &d.observers, d.runtime.Client
	deadline := time.Now().Add(sourcesTimeout)
	return gc.NewImages(gc.ImagesConfig{
		Policy: gc.ImagePolicy{High: o.Garbage.ImageHigh, Low: o.Garbage.ImageLow, Period: o.Garbage.ImagePeriod,
			MinAge: o.Garbage.ImageMinAge, MaxAge: o.Garbage.ImageMaxAge},
		Store: client, Runtime: client.Endpoint(), Observed: p.pleg.Observed,
		Desired: func() (images []string) {
			for _, pod := range d.sup.Pods() {
				images = slices.AppendSeq(images, podinfo.Images(&pod.Spec))
			}
			return slices.Concat(images, d.archives.Images(), d.sources.rollouts.Images())
		},
		WaitForSources: func(ctx context.Context) {
			ctx, cancel := context.WithDeadline(ctx, deadline)
			defer cancel()
			_ = d.sup.WaitSourcesReady(ctx)
		},
		Pulls: d.pullRecords,
		File:  filepath.Join(o.Paths.Root, "images.json"), Disk: d.disk, Events: p.events, Removed: p.counters.ImageRemoved,
		Log: d.log,
	})
}

// newDescribe returns a function that describes this node as it is when called, with the
// given condition of its runtime.
func (d *daemon) newDescribe() func(supervisor.RuntimeCondition) *v1.Node {
	o, p := d.opts, &d.observers
	var storage nodestatus.StorageCondition
	since, host, resources := time.Now(), nodestatus.ReadHost("/"), nodeResources(o)
	return func(rt supervisor.RuntimeCondition) *v1.Node {
		capacity, allocatable := d.devices.Resources()
		in := nodestatus.Input{
			Name: d.nodeName, Since: since,
			Capacity:    withDevices(nodestatus.APIResources(resources.Capacity()), capacity),
			Allocatable: withDevices(nodestatus.APIResources(resources.Allocatable()), allocatable),
			Labels:      d.admitNode.Labels, Addresses: p.addresses.Addresses(), Port: o.Remote.Port(),
			Version: kubeversion.Semantic(buildinfo.Version()), NotReady: rt.NotReady, ReadySince: rt.Since, Host: host,
			Pressures: append(d.node.eviction.NodeConditions(since), storage.Condition(d.unwritten.List(), since)),
		}
		in.Pressures = append(in.Pressures, d.csi.NodeConditions()...)
		if d.node.inventory != nil {
			in.Inventory = d.node.inventory.Current()
		}
		if rt.Version.Name != "" {
			in.Runtime = rt.Version.Name + "://" + rt.Version.Version
		}
		return nodestatus.Describe(in)
	}
}

// runtimeInventory is the client as node/nodestatus asks it.
type runtimeInventory struct{ client *cri.Client }

// Features implements nodestatus.Runtime.
func (r runtimeInventory) Features(ctx context.Context) (f nodestatus.Features, err error) {
	can, err := r.client.Capabilities(ctx)
	if err != nil {
		return f, err
	}
	if can.Features != nil {
		policy := can.Features.GetSupplementalGroupsPolicy()
		f.SupplementalGroupsPolicy = &policy
	}
	for name, h := range can.Handlers {
		readOnly, users := h.GetRecursiveReadOnlyMounts(), h.GetUserNamespaces()
		f.Handlers = append(f.Handlers, v1.NodeRuntimeHandler{
			Name: name, Features: &v1.NodeRuntimeHandlerFeatures{RecursiveReadOnlyMounts: &readOnly, UserNamespaces: &users},
		})
	}
	return f, nil
}

// Images implements nodestatus.Runtime.
func (r runtimeInventory) Images(ctx context.Context) ([]nodestatus.Image, error) {
	stored, err := r.client.StoredImages(ctx)
	if err != nil {
		return nil, err
	}
	images := make([]nodestatus.Image, len(stored))
	for i := range stored {
		images[i] = nodestatus.Image{Tags: stored[i].Tags, Digests: stored[i].Digests, Size: stored[i].Size}
	}
	return images, nil
}

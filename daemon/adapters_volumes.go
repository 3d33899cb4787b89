package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/httpapi"
	"github.com/podstead/podstead/httpapi/kubeapi"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/internal/usage"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/node/stats"
	"github.com/podstead/podstead/supervisor"
	"github.com/podstead/podstead/supervisor/volume"
	"github.com/podstead/podstead/supervisor/volume/binding"
)

// volumeView serves the volumes of claims to the API: those of manifests, and those that pods of a cluster use.
type volumeView struct {
	objects *manifest.Objects
	pods    claimPods
	usage   claimUsage
}

// claimPods are the claims of pods. Implemented by supervisor.Supervisor.
type claimPods interface {
	Pods() []*v1.Pod
	// Claims returns the claims of manifests, ClusterClaims those of a cluster.
	Claims() ([]volume.Claim, error)
	ClusterClaims() []volume.ClusterClaim
	RemoveClaim(namespace, name string) error
}

// PersistentVolumes implements httpapi.VolumeManager.
func (v volumeView) PersistentVolumes(ctx context.Context, measured bool) ([]httpapi.PersistentVolume, error) {
	claims, err := v.pods.Claims()
	if err != nil {
		return nil, err
	}
	bound := v.pods.ClusterClaims()
	list := describedClaims{names: podNames(v.pods.Pods())}
	if measured {
		list.volumes = v.usage.of(ctx, slices.Concat(pathsOf(claims), devicesOf(bound)), volumesAge)
	}
	sources := claimSources(v.objects)
	for i := range claims {
		one := list.add(&claims[i])
		one.State, one.Declared = httpapi.VolumeBound, claims[i].Volume != nil && !claims[i].Provisioned
		one.Source = sources[one.Namespace+"/"+one.Name]
		if claim, ok := v.objects.Claim(one.Namespace, one.Name); ok {
			size := claim.Spec.Resources.Requests[v1.ResourceStorage]
			one.Requested = size.String()
		}
	}
	for i := range bound {
		list.addClusterClaim(&bound[i])
	}
	// A claim of a manifest comes before one of the cluster with its name.
	slices.SortStableFunc(list.all, func(a, b httpapi.PersistentVolume) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return list.all, nil
}

// podNames returns the names of pods as in their manifests.
func podNames(pods []*v1.Pod) map[types.UID]string {
	names := map[types.UID]string{}
	for _, p := range pods {
		names[p.UID] = p.Namespace + "/" + manifest.BaseName(p)
	}
	return names
}

// claimSources returns the sources of the claims that manifests declare.
func claimSources(objects *manifest.Objects) map[string]string {
	sources := map[string]string{}
	for _, o := range objects.List() {
		if o.Kind == manifest.KindClaim {
			sources[o.Namespace+"/"+o.Name] = string(o.Source)
		}
	}
	return sources
}

// describedClaims are claims in the form of the API.
type describedClaims struct {
	all     []httpapi.PersistentVolume
	names   map[types.UID]string
	volumes usage.ClaimVolumes
}

// add adds a claim, with what those of manifests and of a cluster have in common.
func (d *describedClaims) add(c *volume.Claim) *httpapi.PersistentVolume {
	one := httpapi.PersistentVolume{Namespace: c.Namespace, Name: c.Name, Path: c.Path}
	if c.Volume != nil {
		spec := &c.Volume.Spec
		one.Volume, one.StorageClass, one.Type = c.Volume.Name, spec.StorageClassName, volume.VolumeType(c.Volume)
		one.ReclaimPolicy = string(spec.PersistentVolumeReclaimPolicy)
		if size, ok := spec.Capacity[v1.ResourceStorage]; ok {
			one.Capacity = size.String()
		}
		if nfs := spec.NFS; nfs != nil {
			one.Path = nfs.Server + ":" + nfs.Path
		}
		if source := spec.CSI; source != nil {
			one.Path = source.Driver + ":" + source.VolumeHandle
		}
	}
	for _, uid := range c.Users {
		one.Pods = append(one.Pods, d.nameOf(uid))
	}
	if u := d.volumes[c.MountPath]; u != nil {
		one.Usage = &httpapi.VolumeUsage{Capacity: u.Capacity, Incomplete: u.Incomplete, Limit: u.Limit}
		if !u.Block {
			one.Usage.Available, one.Usage.Used = &u.Available, &u.Used
		}
	}
	d.all = append(d.all, one)
	return &d.all[len(d.all)-1]
}

func (d *describedClaims) addClusterClaim(c *volume.ClusterClaim) {
	one := d.add(&c.Claim)
	one.Source, one.State, one.Requested = string(podinfo.SourceAPI), httpapi.VolumeBound, c.Requested
	for _, wait := range c.Waiting {
		one.State = httpapi.VolumeWaiting
		one.Waiting = append(one.Waiting, httpapi.VolumeWait{Pod: d.nameOf(wait.Pod), Message: wait.Reason})
	}
}

// nameOf returns the name of a pod, its UID if only its directory is left.
func (d *describedClaims) nameOf(uid types.UID) string {
	if name, ok := d.names[uid]; ok {
		return name
	}
	return string(uid)
}

const (
	// volumesAge is the maximum age of the usage that podstead volumes shows, unless it takes long to
	// measure.
	volumesAge = time.Second
	// scrapeWait is how long the metrics and the summary wait for directories that are large; then
	// they have the previous measurement.
	scrapeWait = 2 * time.Second
)

// claimUsage measures the volumes of claims.
type claimUsage struct {
	collector *stats.Collector
	pods      *supervisor.Supervisor
	log       *slog.Logger
	// maxAge is the maximum age of a measurement for the metrics and the summary.
	maxAge time.Duration
}

func (d *daemon) claimUsage() claimUsage {
	return claimUsage{collector: d.observers.stats, pods: d.sup, log: d.log, maxAge: d.opts.Stats.DiskAge}
}

// list returns all claims; none if they cannot be read: podstead volumes says why.
func (u claimUsage) list() []volume.Claim {
	claims, err := u.pods.Claims()
	if err != nil {
		u.log.Debug("Failed to list claims", "err", err)
	}
	return claims
}

// recent returns the usage of claims for the metrics and the summary.
func (u claimUsage) recent(ctx context.Context, claims []volume.Claim) usage.ClaimVolumes {
	ctx, cancel := context.WithTimeout(ctx, scrapeWait)
	defer cancel()
	return u.of(ctx, pathsOf(claims), u.maxAge)
}

// of returns the usage of the volumes that pods use and of those at paths, by their MountPath.
func (u claimUsage) of(ctx context.Context, paths []string, maxAge time.Duration) usage.ClaimVolumes {
	return u.collector.Claims(ctx, maxAge, paths)
}

// pathsOf returns where the claims of manifests are on the host, also if no pod uses them.
func pathsOf(claims []volume.Claim) (paths []string) {
	for i := range claims {
		if claims[i].Path != "" {
			paths = append(paths, claims[i].Path)
		}
	}
	return paths
}

// devicesOf returns the block devices of a cluster's claims that pods use. The directories that they use are
// measured in any case, and others may be large and not for this node.
func devicesOf(claims []volume.ClusterClaim) (paths []string) {
	for i := range claims {
		if c := &claims[i]; c.Path != "" && c.Path == c.MountPath && c.Volume != nil && binding.IsBlock(c.Volume.Spec.VolumeMode) {
			paths = append(paths, c.Path)
		}
	}
	return paths
}

// claimVolumes returns the volumes of claims for the Kubernetes API, none if they cannot be read:
// podstead volumes says why.
func claimVolumes(pods *supervisor.Supervisor) func() []kubeapi.ClaimVolume {
	return func() []kubeapi.ClaimVolume {
		directories, err := pods.ClaimDirectories()
		if err != nil {
			return nil
		}
		list := make([]kubeapi.ClaimVolume, 0, len(directories))
		for _, d := range directories {
			list = append(list, kubeapi.ClaimVolume{Namespace: d.Namespace, Name: d.Name, Path: d.Path, Created: d.Created})
		}
		bound, err := pods.ClaimBindings()
		if err != nil {
			return list
		}
		for i := range bound {
			list = append(list, kubeapi.ClaimVolume{Namespace: bound[i].Namespace, Name: bound[i].Claim, Volume: bound[i].Volume})
		}
		return list
	}
}

// RemovePersistentVolume implements httpapi.VolumeManager. It removes only claims of manifests, also if the cluster
// has one of that name.
func (v volumeView) RemovePersistentVolume(namespace, name string) error {
	err := v.pods.RemoveClaim(namespace, name)
	switch {
	case !errors.Is(err, volume.ErrNoClaim):
		return err
	case slices.ContainsFunc(v.pods.ClusterClaims(), func(c volume.ClusterClaim) bool { return c.Namespace == namespace && c.Name == name }):
		return fmt.Errorf("PersistentVolumeClaim %s/%s belongs to the cluster, which decides about its volume; delete it there: kubectl -n %[1]s delete pvc %[2]s", namespace, name)
	}
	return absent{err}
}

// absent marks an error as "not found" for the API, without changing its text.
type absent struct{ error }

func (absent) Is(target error) bool { return target == fs.ErrNotExist }

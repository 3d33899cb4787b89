package volumeview

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

	"github.com/podstead/podstead/api"
	"github.com/podstead/podstead/internal/usage"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/supervisor/volume"
)

// View shows the volumes of claims.
type View struct {
	Objects Objects
	Pods    Pods
	Meter   Meter
	// MaxAge is the maximum age of a measurement for the metrics and the summary.
	MaxAge time.Duration
	Log    *slog.Logger
}

// Objects are those of the manifests. Implemented by manifest.Objects.
type Objects interface {
	Claim(namespace, name string) (*v1.PersistentVolumeClaim, bool)
	List() []manifest.ObjectView
}

// Pods are the pods with their claims. Implemented by supervisor.Supervisor.
type Pods interface {
	Pods() []*v1.Pod
	// Claims returns the claims of manifests, ClusterClaims those of a cluster.
	Claims() ([]volume.Claim, error)
	ClusterClaims() []volume.ClusterClaim
	RemoveClaim(namespace, name string) error
	// PodClaimPath returns where the content of a claim is on the host as the pod uses it, by the name of the
	// pod's volume; empty if the pod does not use it yet.
	PodClaimPath(uid types.UID, volume string) string
}

// Meter measures volumes, by their path. Implemented by stats.Collector.
type Meter interface {
	// Claims returns the usage of the volumes that pods use and of those at paths, at most maxAge old unless it
	// takes long to measure; when ctx ends, what was last measured.
	Claims(ctx context.Context, maxAge time.Duration, paths []string) usage.ClaimVolumes
}

// PersistentVolumes returns all volumes, by namespace and name; measured adds their usage.
func (v *View) PersistentVolumes(ctx context.Context, measured bool) ([]api.PersistentVolume, error) {
	claims, err := v.Pods.Claims()
	if err != nil {
		return nil, err
	}
	bound := v.Pods.ClusterClaims()
	list := describedClaims{names: podNames(v.Pods.Pods())}
	if measured {
		list.volumes = v.Meter.Claims(ctx, volumesAge, slices.Concat(pathsOf(claims), devicesOf(bound)))
	}
	sources := v.claimSources()
	for i := range claims {
		one := list.add(&claims[i])
		one.State, one.Declared = api.VolumeBound, claims[i].Volume != nil && !claims[i].Provisioned
		one.Source = sources[one.Namespace+"/"+one.Name]
		if claim, ok := v.Objects.Claim(one.Namespace, one.Name); ok {
			size := claim.Spec.Resources.Requests[v1.ResourceStorage]
			one.Requested = size.String()
		}
	}
	for i := range bound {
		list.addClusterClaim(&bound[i])
	}
	// A claim of a manifest comes before one of the cluster with its name.
	slices.SortStableFunc(list.all, func(a, b api.PersistentVolume) int {
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
func (v *View) claimSources() map[string]string {
	sources := map[string]string{}
	for _, o := range v.Objects.List() {
		if o.Kind == manifest.KindClaim {
			sources[o.Namespace+"/"+o.Name] = string(o.Source)
		}
	}
	return sources
}

// RemovePersistentVolume deletes a volume with its content; the error is fs.ErrNotExist if there is none. It
// removes only claims of manifests, also if the cluster has one of that name.
func (v *View) RemovePersistentVolume(namespace, name string) error {
	err := v.Pods.RemoveClaim(namespace, name)
	switch {
	case !errors.Is(err, volume.ErrNoClaim):
		return err
	case slices.ContainsFunc(v.Pods.ClusterClaims(), func(c volume.ClusterClaim) bool {
		return c.Namespace == namespace && c.Name == name
	}):
		return fmt.Errorf("PersistentVolumeClaim %s/%s belongs to the cluster, which decides about its volume; delete it "+
			"there: kubectl -n %[1]s delete pvc %[2]s", namespace, name)
	}
	return absent{err}
}

// absent marks an error as "not found" for the API, without changing its text.
type absent struct{ error }

func (absent) Is(target error) bool { return target == fs.ErrNotExist }

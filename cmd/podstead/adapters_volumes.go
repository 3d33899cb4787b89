package main

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/httpapi"
	"github.com/podstead/podstead/httpapi/kubeapi"
	"github.com/podstead/podstead/internal/usage"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/node/stats"
	"github.com/podstead/podstead/supervisor"
	"github.com/podstead/podstead/supervisor/volume"
)

// volumeView serves the directories of claims to the API.
type volumeView struct {
	objects *manifest.Objects
	pods    *supervisor.Supervisor
	usage   claimUsage
}

// PersistentVolumes implements httpapi.VolumeKeeper.
func (v volumeView) PersistentVolumes(ctx context.Context, measured bool) ([]httpapi.PersistentVolume, error) {
	claims, err := v.pods.Claims()
	if err != nil {
		return nil, err
	}
	var volumes usage.ClaimVolumes
	if measured {
		volumes = v.usage.of(ctx, claims, volumesAge)
	}
	names := map[types.UID]string{}
	for _, p := range v.pods.Pods() {
		names[p.UID] = p.Namespace + "/" + manifest.BaseName(p)
	}
	list := make([]httpapi.PersistentVolume, 0, len(claims))
	for _, c := range claims {
		one := httpapi.PersistentVolume{Namespace: c.Namespace, Name: c.Name, Path: c.Path}
		if c.Volume != nil {
			one.Volume, one.StorageClass, one.Declared = c.Volume.Name, c.Volume.Spec.StorageClassName, !c.Provisioned
			one.ReclaimPolicy = string(c.Volume.Spec.PersistentVolumeReclaimPolicy)
			if nfs := c.Volume.Spec.NFS; nfs != nil {
				one.Path = nfs.Server + ":" + nfs.Path
			}
			if source := c.Volume.Spec.CSI; source != nil {
				one.Path = source.Driver + ":" + source.VolumeHandle
			}
		}
		if claim, ok := v.objects.Claim(c.Namespace, c.Name); ok {
			size := claim.Spec.Resources.Requests[v1.ResourceStorage]
			one.Requested = size.String()
		}
		for _, uid := range c.Users {
			name, ok := names[uid]
			if !ok {
				name = string(uid)
			}
			one.Pods = append(one.Pods, name)
		}
		if u := volumes[c.MountPath]; u != nil {
			one.Usage = &httpapi.VolumeUsage{Capacity: u.Capacity, Incomplete: u.Incomplete, Limit: u.Limit}
			if !u.Block {
				one.Usage.Available, one.Usage.Used = &u.Available, &u.Used
			}
		}
		list = append(list, one)
	}
	return list, nil
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
	return u.of(ctx, claims, u.maxAge)
}

// of returns the usage of claims, by their MountPath.
func (u claimUsage) of(ctx context.Context, claims []volume.Claim, maxAge time.Duration) usage.ClaimVolumes {
	var paths []string
	for i := range claims {
		if claims[i].Path != "" {
			paths = append(paths, claims[i].Path)
		}
	}
	return u.collector.Claims(ctx, maxAge, paths)
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

// RemovePersistentVolume implements httpapi.VolumeKeeper.
func (v volumeView) RemovePersistentVolume(namespace, name string) error {
	err := v.pods.RemoveClaim(namespace, name)
	if errors.Is(err, volume.ErrNoClaim) {
		return absent{err}
	}
	return err
}

// absent marks an error as "not found" for the API, without changing its text.
type absent struct{ error }

func (absent) Is(target error) bool { return target == fs.ErrNotExist }

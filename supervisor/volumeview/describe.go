package volumeview

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/api"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/internal/usage"
	"github.com/podstead/podstead/supervisor/volume"
)

// describedClaims are claims in the form of the API.
type describedClaims struct {
	all     []api.PersistentVolume
	names   map[types.UID]string
	volumes usage.ClaimVolumes
}

// add adds a claim, with what those of manifests and of a cluster have in common.
func (d *describedClaims) add(c *volume.Claim) *api.PersistentVolume {
	one := api.PersistentVolume{Namespace: c.Namespace, Name: c.Name, Path: c.Path}
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
		one.Usage = &api.VolumeUsage{Capacity: u.Capacity, Incomplete: u.Incomplete, Limit: u.Limit}
		if !u.Block {
			one.Usage.Available, one.Usage.Used = &u.Available, &u.Used
		}
	}
	d.all = append(d.all, one)
	return &d.all[len(d.all)-1]
}

func (d *describedClaims) addClusterClaim(c *volume.ClusterClaim) {
	one := d.add(&c.Claim)
	one.Source, one.State, one.Requested = string(podinfo.SourceAPI), api.VolumeBound, c.Requested
	for _, wait := range c.Waiting {
		one.State = api.VolumeWaiting
		one.Waiting = append(one.Waiting, api.VolumeWait{Pod: d.nameOf(wait.Pod), Message: wait.Reason})
	}
}

// nameOf returns the name of a pod, its UID if only its directory is left.
func (d *describedClaims) nameOf(uid types.UID) string {
	if name, ok := d.names[uid]; ok {
		return name
	}
	return string(uid)
}

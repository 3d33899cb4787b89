package main

import (
	"errors"
	"io/fs"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/httpapi"
	"github.com/podstead/podstead/httpapi/kubeapi"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/supervisor"
	"github.com/podstead/podstead/supervisor/volume"
)

// volumeView serves the directories of claims to the API.
type volumeView struct {
	objects *manifest.Objects
	pods    *supervisor.Supervisor
}

// PersistentVolumes implements httpapi.VolumeKeeper.
func (v volumeView) PersistentVolumes() ([]httpapi.PersistentVolume, error) {
	claims, err := v.pods.Claims()
	if err != nil {
		return nil, err
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
		list = append(list, one)
	}
	return list, nil
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

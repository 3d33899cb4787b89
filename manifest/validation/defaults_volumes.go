package validation

import (
	v1 "k8s.io/api/core/v1"
)

// tokenLifetime is the API default for a projected service account token.
const tokenLifetime = int64(60 * 60)

func defaultVolume(volume *v1.Volume) {
	source := &volume.VolumeSource
	if *source == (v1.VolumeSource{}) {
		source.EmptyDir = &v1.EmptyDirVolumeSource{}
	}
	if s := source.HostPath; s != nil {
		setDefaultPtr(&s.Type, v1.HostPathUnset)
	}
	if s := source.Secret; s != nil {
		setDefaultPtr(&s.DefaultMode, v1.SecretVolumeSourceDefaultMode)
	}
	if s := source.ConfigMap; s != nil {
		setDefaultPtr(&s.DefaultMode, v1.ConfigMapVolumeSourceDefaultMode)
	}
	if s := source.DownwardAPI; s != nil {
		setDefaultPtr(&s.DefaultMode, v1.DownwardAPIVolumeSourceDefaultMode)
		defaultDownwardItems(s.Items)
	}
	if s := source.Projected; s != nil {
		defaultProjected(s)
	}
	if s := source.Image; s != nil {
		setDefault(&s.PullPolicy, defaultPullPolicy(s.Reference))
	}
	if s := source.Ephemeral; s != nil && s.VolumeClaimTemplate != nil {
		claim := &s.VolumeClaimTemplate.Spec
		setDefaultPtr(&claim.VolumeMode, v1.PersistentVolumeFilesystem)
		roundUp(claim.Resources.Limits)
		roundUp(claim.Resources.Requests)
	}
	defaultNetworkVolume(source)
}

func defaultDownwardItems(items []v1.DownwardAPIVolumeFile) {
	for i := range items {
		defaultFieldRef(items[i].FieldRef)
	}
}

func defaultProjected(projected *v1.ProjectedVolumeSource) {
	setDefaultPtr(&projected.DefaultMode, v1.ProjectedVolumeSourceDefaultMode)
	for i := range projected.Sources {
		if s := projected.Sources[i].DownwardAPI; s != nil {
			defaultDownwardItems(s.Items)
		}
		if s := projected.Sources[i].ServiceAccountToken; s != nil {
			setDefaultPtr(&s.ExpirationSeconds, tokenLifetime)
		}
	}
}

// defaultNetworkVolume sets the defaults of the volume types that a storage
// system provides.
func defaultNetworkVolume(source *v1.VolumeSource) {
	if s := source.ISCSI; s != nil {
		setDefault(&s.ISCSIInterface, "default")
	}
	if s := source.RBD; s != nil {
		setDefault(&s.RBDPool, "rbd")
		setDefault(&s.RadosUser, "admin")
		setDefault(&s.Keyring, "/etc/ceph/keyring")
	}
	if s := source.AzureDisk; s != nil {
		setDefaultPtr(&s.CachingMode, v1.AzureDataDiskCachingReadWrite)
		setDefaultPtr(&s.FSType, "ext4")
		setDefaultPtr(&s.ReadOnly, false)
		setDefaultPtr(&s.Kind, v1.AzureSharedBlobDisk)
	}
	if s := source.ScaleIO; s != nil {
		setDefault(&s.StorageMode, "ThinProvisioned")
		setDefault(&s.FSType, "xfs")
	}
}

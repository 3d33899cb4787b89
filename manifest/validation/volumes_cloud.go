package validation

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// cloudVolumes are the types served by a cloud or a commercial storage
// system. Most of them no longer work anywhere, but are still in the API.
func (v *validator) cloudVolumes(volume *v1.Volume) []volumeType {
	s := &volume.VolumeSource
	return []volumeType{
		{"gcePersistentDisk", s.GCEPersistentDisk != nil, func(path *field.Path) {
			v.requireSet(path.Child("pdName"), s.GCEPersistentDisk.PDName, "must be the name of the disk")
			v.inRange(path.Child("partition"), int64(s.GCEPersistentDisk.Partition), 0, partitionMax)
		}},
		{"awsElasticBlockStore", s.AWSElasticBlockStore != nil, func(path *field.Path) {
			v.requireSet(path.Child("volumeID"), s.AWSElasticBlockStore.VolumeID, "must be the ID of the volume")
			v.inRange(path.Child("partition"), int64(s.AWSElasticBlockStore.Partition), 0, partitionMax)
		}},
		{"azureFile", s.AzureFile != nil, func(path *field.Path) {
			v.requireSet(path.Child("secretName"), s.AzureFile.SecretName, "must be the name of the Secret with the account")
			v.requireSet(path.Child("shareName"), s.AzureFile.ShareName, "must be the name of the share")
		}},
		{"azureDisk", s.AzureDisk != nil, func(path *field.Path) { v.azureDisk(path, s.AzureDisk) }},
		{"cinder", s.Cinder != nil, func(path *field.Path) {
			v.requireSet(path.Child("volumeID"), s.Cinder.VolumeID, "must be the ID of the volume")
			v.secretRef(path, s.Cinder.SecretRef)
		}},
		{"vsphereVolume", s.VsphereVolume != nil, func(path *field.Path) {
			v.requireSet(path.Child("volumePath"), s.VsphereVolume.VolumePath, "must be the path of the disk in its datastore")
		}},
		{"photonPersistentDisk", s.PhotonPersistentDisk != nil, func(path *field.Path) {
			v.requireSet(path.Child("pdID"), s.PhotonPersistentDisk.PdID, "must be the ID of the disk")
		}},
		{"portworxVolume", s.PortworxVolume != nil, func(path *field.Path) {
			v.requireSet(path.Child("volumeID"), s.PortworxVolume.VolumeID, "must be the ID of the volume")
		}},
		{"storageos", s.StorageOS != nil, func(path *field.Path) {
			if v.requireSet(path.Child("volumeName"), s.StorageOS.VolumeName, "must be the name of the volume") {
				v.dnsLabel(path.Child("volumeName"), s.StorageOS.VolumeName)
			}
			if s.StorageOS.VolumeNamespace != "" {
				v.dnsLabel(path.Child("volumeNamespace"), s.StorageOS.VolumeNamespace)
			}
			v.secretRef(path, s.StorageOS.SecretRef)
		}},
		{"scaleIO", s.ScaleIO != nil, func(path *field.Path) {
			v.requireSet(path.Child("gateway"), s.ScaleIO.Gateway, "must be the address of the gateway")
			v.requireSet(path.Child("system"), s.ScaleIO.System, "must be the name of the storage system")
			v.requireSet(path.Child("volumeName"), s.ScaleIO.VolumeName, "must be the name of the volume")
		}},
	}
}

func (v *validator) secretRef(path *field.Path, ref *v1.LocalObjectReference) {
	if ref != nil {
		v.requireSet(path.Child("secretRef", "name"), ref.Name, "must be the name of the Secret")
	}
}

func (v *validator) azureDisk(path *field.Path, s *v1.AzureDiskVolumeSource) {
	v.requireSet(path.Child("diskName"), s.DiskName, "must be the name of the disk")
	optionalOneOf(v, path.Child("cachingMode"), s.CachingMode,
		v1.AzureDataDiskCachingNone, v1.AzureDataDiskCachingReadOnly, v1.AzureDataDiskCachingReadWrite)
	optionalOneOf(v, path.Child("kind"), s.Kind,
		v1.AzureSharedBlobDisk, v1.AzureDedicatedBlobDisk, v1.AzureManagedDisk)
	if !v.requireSet(path.Child("diskURI"), s.DataDiskURI, "must be the URI of the disk") || s.Kind == nil {
		return
	}
	prefix, form := "https://", "https://{account}.blob.core.windows.net/{container}/{disk}.vhd"
	if *s.Kind == v1.AzureManagedDisk {
		prefix, form = "/subscriptions/", "/subscriptions/{subscription}/resourcegroups/{group}/providers/microsoft.compute/disks/{disk}"
	}
	if !strings.HasPrefix(s.DataDiskURI, prefix) {
		v.add(field.NotSupported(path.Child("diskURI"), s.DataDiskURI, []string{form}))
	}
}

package validation

import (
	"net"
	"path"
	"regexp"
	"strings"

	v1 "k8s.io/api/core/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var (
	iqnName = regexp.MustCompile(`iqn\.\d{4}-\d{2}\.[[:alnum:]-.]+:[^,;*&$|\s]+$`)
	euiName = regexp.MustCompile(`^eui.[[:alnum:]]{16}$`)
	naaName = regexp.MustCompile(`^naa.[[:alnum:]]{32}$`)
)

const (
	// iscsiSessionMax is the maximum length of "<volume>:<portal>", the name of
	// a session.
	iscsiSessionMax = 64
	lunMax          = 255
	partitionMax    = 255
	quobyteIDMax    = 64
	csiDriverMax    = 63
)

// networkVolumes returns the types served by a storage system on the network.
func (v *validator) networkVolumes(volume *v1.Volume) []volumeType {
	s := &volume.VolumeSource
	return []volumeType{
		{"nfs", s.NFS != nil, func(at *field.Path) { v.nfs(at, s.NFS) }},
		{"iscsi", s.ISCSI != nil, func(at *field.Path) { v.iscsi(at, volume.Name, s.ISCSI) }},
		{"fc", s.FC != nil, func(at *field.Path) { v.fibreChannel(at, s.FC) }},
		{"glusterfs", s.Glusterfs != nil, func(at *field.Path) {
			v.requireSet(at.Child("endpoints"), s.Glusterfs.EndpointsName, "must be the name of the Endpoints of the servers")
			v.requireSet(at.Child("path"), s.Glusterfs.Path, "must be the name of the volume")
		}},
		{"rbd", s.RBD != nil, func(at *field.Path) {
			if len(s.RBD.CephMonitors) == 0 {
				v.required(at.Child("monitors"), "must be the addresses of the Ceph monitors")
			}
			v.requireSet(at.Child("image"), s.RBD.RBDImage, "must be the name of the image")
		}},
		{"cephfs", s.CephFS != nil, func(at *field.Path) {
			if len(s.CephFS.Monitors) == 0 {
				v.required(at.Child("monitors"), "must be the addresses of the Ceph monitors")
			}
		}},
		{"quobyte", s.Quobyte != nil, func(at *field.Path) { v.quobyte(at, s.Quobyte) }},
		{"flocker", s.Flocker != nil, func(at *field.Path) { v.flocker(at, s.Flocker) }},
		{"flexVolume", s.FlexVolume != nil, func(at *field.Path) { v.flexVolume(at, s.FlexVolume) }},
		{"csi", s.CSI != nil, func(at *field.Path) { v.csi(at, s.CSI) }},
	}
}

func (v *validator) nfs(at *field.Path, s *v1.NFSVolumeSource) {
	v.requireSet(at.Child("server"), s.Server, "must be the name or address of the server")
	if v.requireSet(at.Child("path"), s.Path, "must be the directory that the server exports") && !path.IsAbs(s.Path) {
		v.invalid(at.Child("path"), s.Path, "must be an absolute path")
	}
}

func (v *validator) iscsi(at *field.Path, volume string, s *v1.ISCSIVolumeSource) {
	v.requireSet(at.Child("targetPortal"), s.TargetPortal,
		"must be the address of the target, with its port if that is not 3260")
	if v.requireSet(at.Child("iqn"), s.IQN, "must be the name of the target, such as iqn.2001-04.com.example:storage") {
		v.iscsiName(at.Child("iqn"), s.IQN)
	}
	v.inRange(at.Child("lun"), int64(s.Lun), 0, lunMax)
	if (s.DiscoveryCHAPAuth || s.SessionCHAPAuth) && s.SecretRef == nil {
		v.required(at.Child("secretRef"), "CHAP needs the Secret with the user and the password")
	}
	if s.InitiatorName != nil {
		v.iscsiName(at.Child("initiatorName"), *s.InitiatorName)
	}
	if s.InitiatorName != nil && len(volume)+1+len(s.TargetPortal) > iscsiSessionMax {
		v.invalid(at.Child("targetPortal"), s.TargetPortal,
			"must be at most 64 characters long together with the volume's name and a colon when initiatorName is set")
	}
}

func (v *validator) iscsiName(at *field.Path, name string) {
	for prefix, form := range map[string]*regexp.Regexp{"iqn": iqnName, "eui": euiName, "naa": naaName} {
		if strings.HasPrefix(name, prefix) {
			if !form.MatchString(name) {
				v.invalid(at, name, "must be a complete iqn, eui or naa name, such as iqn.2001-04.com.example:storage")
			}
			return
		}
	}
	v.invalid(at, name, "must start with iqn, eui or naa")
}

func (v *validator) fibreChannel(at *field.Path, s *v1.FCVolumeSource) {
	switch {
	case len(s.TargetWWNs) == 0 && len(s.WWIDs) == 0:
		v.required(at.Child("targetWWNs"), "must have one of targetWWNs, wwids")
	case len(s.TargetWWNs) > 0 && len(s.WWIDs) > 0:
		v.invalid(at.Child("targetWWNs"), s.TargetWWNs, "must not be set together with wwids; keep one of them")
	}
	if len(s.TargetWWNs) == 0 {
		return
	}
	if s.Lun == nil {
		v.required(at.Child("lun"), "targetWWNs need the number of the logical unit")
		return
	}
	v.inRange(at.Child("lun"), int64(*s.Lun), 0, lunMax)
}

func (v *validator) quobyte(at *field.Path, s *v1.QuobyteVolumeSource) {
	const form = "must be host:port, or a comma-separated list of them"
	v.requireSet(at.Child("volume"), s.Volume, "must be the name of the volume")
	if !v.requireSet(at.Child("registry"), s.Registry, form) {
		return
	}
	if len(s.Tenant) > quobyteIDMax {
		v.required(at.Child("tenant"), "must be a UUID of at most 64 characters")
		return
	}
	for _, address := range strings.Split(s.Registry, ",") {
		if _, _, err := net.SplitHostPort(address); err != nil {
			v.invalid(at.Child("registry"), s.Registry, form)
			return
		}
	}
}

func (v *validator) flocker(at *field.Path, s *v1.FlockerVolumeSource) {
	switch {
	case s.DatasetName == "" && s.DatasetUUID == "":
		v.required(at, "must have one of datasetName, datasetUUID")
	case s.DatasetName != "" && s.DatasetUUID != "":
		v.invalid(at, s.DatasetName, "must have one of datasetName, datasetUUID, not both")
	}
	if strings.Contains(s.DatasetName, "/") {
		v.invalid(at.Child("datasetName"), s.DatasetName, "must not contain '/'")
	}
}

func (v *validator) flexVolume(at *field.Path, s *v1.FlexVolumeSource) {
	v.requireSet(at.Child("driver"), s.Driver, "must be the name of the driver")
	for key := range sortedMap(s.Options) {
		domain, _, _ := strings.Cut(key, "/")
		domain = "." + strings.ToLower(domain)
		if strings.HasSuffix(domain, ".kubernetes.io") || strings.HasSuffix(domain, ".k8s.io") {
			v.invalid(at.Child("options").Key(key), key,
				"must not be in the domains kubernetes.io and k8s.io, which are reserved")
		}
	}
}

func (v *validator) csiDriver(at *field.Path, name string) {
	if v.requireSet(at, name, "must be the name of the driver, such as csi.example.com") {
		if len(name) > csiDriverMax {
			v.add(field.TooLong(at, name, csiDriverMax))
		}
		v.rules(at, name, utilvalidation.IsDNS1123Subdomain(strings.ToLower(name)))
	}
}

func (v *validator) csi(at *field.Path, s *v1.CSIVolumeSource) {
	v.csiDriver(at.Child("driver"), s.Driver)
	if ref := s.NodePublishSecretRef; ref != nil {
		if v.requireSet(at.Child("nodePublishSecretRef", "name"), ref.Name, "must be the name of the Secret") {
			v.dnsSubdomain(at.Child("nodePublishSecretRef", "name"), ref.Name)
		}
	}
}

// cloudVolumes returns the types served by a cloud or a commercial storage
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
		prefix, form = "/subscriptions/",
			"/subscriptions/{subscription}/resourcegroups/{group}/providers/microsoft.compute/disks/{disk}"
	}
	if !strings.HasPrefix(s.DataDiskURI, prefix) {
		v.add(field.NotSupported(path.Child("diskURI"), s.DataDiskURI, []string{form}))
	}
}

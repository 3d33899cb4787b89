package validation

import "maps"

// migratedTypes are the volume types that Kubernetes has moved to CSI drivers, or whose drivers there have
// replaced the ones that it has removed, with the names of the drivers.
var migratedTypes = map[string]string{
	"awsElasticBlockStore": "ebs.csi.aws.com",
	"azureDisk":            "disk.csi.azure.com",
	"azureFile":            "file.csi.azure.com",
	"cephfs":               "cephfs.csi.ceph.com",
	"cinder":               "cinder.csi.openstack.org",
	"gcePersistentDisk":    "pd.csi.storage.gke.io",
	"portworxVolume":       "pxd.portworx.com",
	"rbd":                  "rbd.csi.ceph.com",
	"vsphereVolume":        "csi.vsphere.vmware.com",
}

// otherTypes say why the other volume types are not supported, and what to do instead.
var otherTypes = map[string]unsupported{
	"fc": "is not supported; give the host the device, and use a claim of a PersistentVolume of type " +
		"local on it",
	"flexVolume": "is deprecated in favour of CSI drivers; use a claim of a PersistentVolume of type csi, " +
		"with the CSI driver of its vendor",
	"flocker":   removedType,
	"glusterfs": removedType,
	"iscsi": "is not supported; log in to the target on the host, and use a claim of a PersistentVolume " +
		"of type local on the device or its mount",
	"photonPersistentDisk": removedType,
	"quobyte":              removedType,
	"scaleIO":              removedType,
	"storageos":            removedType,
}

const removedType unsupported = "was removed from Kubernetes; mount the storage on the host and use a hostPath"

// driverTypes are the volume types that no PersistentVolume and no pod can have, by the names of their fields.
func driverTypes() structVerdict {
	all := structVerdict{}
	for name, driver := range migratedTypes {
		all[name] = unsupported("has become the CSI driver " + driver + "; use a claim of a PersistentVolume of type csi " +
			"with this driver, or mount the storage on the host and use a hostPath")
	}
	for name, on := range otherTypes {
		all[name] = on
	}
	return all
}

// volumeTypeFault reports what to do instead of a PersistentVolume of a type that is not supported.
func volumeTypeFault(name string) string {
	if driver := migratedTypes[name]; driver != "" {
		return "has become the CSI driver " + driver +
			"; use csi with this driver, or mount the storage on the host and use local"
	}
	return "is not supported; mount the storage on the host, and use local"
}

// withDriverTypes adds the verdicts on driverTypes.
func withDriverTypes(volumes structVerdict) structVerdict {
	all := driverTypes()
	maps.Copy(all, volumes)
	return all
}

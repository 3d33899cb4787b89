package api

// PersistentVolume is the volume of a PersistentVolumeClaim.
type PersistentVolume struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Source is the source of the manifest that declares the claim, empty if none does any more, or api: the
	// claim belongs to the cluster, and its pods are those of the API server.
	Source string `json:"source,omitempty"`
	// Path is the directory or block device on the host, SERVER:PATH of a network file system, or DRIVER:HANDLE of
	// a volume of a CSI driver.
	Path string `json:"path"`
	// Volume is the PersistentVolume to which the claim is bound, empty for a directory of
	// its own.
	Volume string `json:"volume,omitempty"`
	// Type is that of the PersistentVolume: hostPath, local, nfs or csi. Capacity is the one that it declares.
	Type     string `json:"type,omitempty"`
	Capacity string `json:"capacity,omitempty"`
	// StorageClass and ReclaimPolicy are those of the PersistentVolume.
	StorageClass  string `json:"storageClass,omitempty"`
	ReclaimPolicy string `json:"reclaimPolicy,omitempty"`
	// Declared: a manifest declares the PersistentVolume; its content is never deleted.
	Declared bool `json:"declared,omitempty"`
	// Requested is the size that the claim requests, empty if it is not known: no manifest declares the claim any more, or
	// the API server has not answered.
	Requested string `json:"requested,omitempty"`
	// Pods are the pods that use it: namespace/name, or the UID of a pod of which only the
	// directory is left.
	Pods []string `json:"pods,omitempty"`
	// State is Bound, or Waiting while a pod cannot use the claim: Waiting has these pods. A claim of a manifest
	// is absent until it is bound.
	State   string       `json:"state,omitempty"`
	Waiting []VolumeWait `json:"waiting,omitempty"`
	// Usage is absent if it was not requested, or if it could not be measured.
	Usage *VolumeUsage `json:"usage,omitempty"`
}

// States of a PersistentVolume.
const (
	VolumeBound   = "Bound"
	VolumeWaiting = "Waiting"
)

// VolumeWait is why a pod, namespace/name, waits for its claim.
type VolumeWait struct {
	Pod     string `json:"pod"`
	Message string `json:"message"`
}

// VolumeUsage is the usage of a volume in bytes.
type VolumeUsage struct {
	// Capacity and Available are those of the file system that the volume is on, within the limit of
	// a quota; or Capacity is the size of a block device, and the rest is absent.
	Capacity  uint64  `json:"capacityBytes"`
	Available *uint64 `json:"availableBytes,omitempty"`
	// Used is what the volume contains. Incomplete: it is too large to count, and Used is what was
	// counted.
	Used       *uint64 `json:"usedBytes,omitempty"`
	Incomplete bool    `json:"incomplete,omitempty"`
	// Limit is the size that a quota enforces, absent without one.
	Limit uint64 `json:"limitBytes,omitempty"`
}

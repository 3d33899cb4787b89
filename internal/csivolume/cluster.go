package csivolume

import storagev1 "k8s.io/api/storage/v1"

// Driver is what the CSIDriver object of a cluster reports of a driver.
type Driver struct {
	// Attach: a controller attaches a volume to the node before it is used. True without an object.
	Attach bool
	// PodInfo: the driver gets the name, namespace, UID and service account of the pod.
	PodInfo bool
	// Persistent and Ephemeral are the kinds of volumes that pods may use. Without an object only
	// Persistent.
	Persistent, Ephemeral bool
	// GroupPolicy determines whether files get the pod's fsGroup; empty is ReadWriteOnceWithFSType.
	GroupPolicy storagev1.FSGroupPolicy
	// Tokens are those of the pod's service account that the driver gets, TokensInSecrets where.
	Tokens          []storagev1.TokenRequest
	TokensInSecrets bool
	// SELinuxMount: the driver mounts volumes with the label that the mount options have.
	SELinuxMount bool
	// Republish: the driver is called for published volumes again and again.
	Republish bool
}

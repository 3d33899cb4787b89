package usage

// ClaimVolume is the usage of the volume of a claim, or of a network file system.
type ClaimVolume struct {
	Filesystem
	// Incomplete: the directory is too large to count in the time for it. Used and InodesUsed
	// are then what was counted.
	Incomplete bool
	// Limit is the size in bytes that a quota enforces; 0 is none. Capacity and Available are then
	// within it.
	Limit uint64
	// Block: it is a block device, of which only the capacity is known.
	Block bool
	// Condition is what the driver of the volume reports of its health; nil if it reports nothing.
	Condition *VolumeCondition
}

// VolumeCondition is the health of a volume.
type VolumeCondition struct {
	Abnormal bool
	Message  string
}

// ClaimVolumes are the volumes that were measured, by their path on the host. They are shared:
// callers must not modify them.
type ClaimVolumes map[string]*ClaimVolume

// Claim is a PersistentVolumeClaim in use, with the usage of its volume.
type Claim struct {
	Namespace, Name string
	ClaimVolume
}

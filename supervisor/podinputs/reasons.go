package podinputs

// Reasons of events and of held pods; the kubelet's where it has them.
const (
	ReasonFailedMount           = "FailedMount"
	ReasonRuntimeClassNotFound  = "RuntimeClassNotFound"
	ReasonPriorityClassNotFound = "PriorityClassNotFound"
	// ReasonClassConflict: a field of the pod and one of its classes disagree.
	ReasonClassConflict = "ClassConflict"
	// ReasonWaitingForHostIP: the pod refers to the node's address, and the node
	// has none yet.
	ReasonWaitingForHostIP = "WaitingForHostIP"
	// ReasonWaitingForNetwork: the host has just booted, and its network is not up yet.
	ReasonWaitingForNetwork = "WaitingForNetwork"

	reasonDNSConfigForming = "DNSConfigForming"
	reasonSizeNotEnforced  = "VolumeSizeNotEnforced"
	reasonExpanded         = "FileSystemResizeSuccessful"
	reasonNotExpanded      = "VolumeResizeFailed"
	reasonNoPullSecret     = "FailedToRetrieveImagePullSecret"
)

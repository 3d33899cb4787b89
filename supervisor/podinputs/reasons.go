package podinputs

// Reasons of events and of pods that wait, the kubelet's where it has them.
const (
	ReasonFailedMount          = "FailedMount"
	ReasonRuntimeClassNotFound = "RuntimeClassNotFound"
	// ReasonWaitingForHostIP: the pod asks for the node's address, and the node
	// has none yet.
	ReasonWaitingForHostIP      = "WaitingForHostIP"
	ReasonPriorityClassNotFound = "PriorityClassNotFound"
	ReasonClassConflict         = "ClassConflict"

	reasonDNSConfigForming = "DNSConfigForming"
	reasonNoPullSecret     = "FailedToRetrieveImagePullSecret"
)

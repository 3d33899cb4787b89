package cri

// Labels and annotations on sandboxes and containers. The io.kubernetes ones are
// the kubelet's keys, so that crictl, log shippers and monitoring tools
// understand them.
const (
	LabelPodName       = "io.kubernetes.pod.name"
	LabelPodNamespace  = "io.kubernetes.pod.namespace"
	LabelPodUID        = "io.kubernetes.pod.uid"
	LabelContainerName = "io.kubernetes.container.name"
	// LabelInstance marks the objects that this daemon created. Only those are
	// ever stopped or removed. Its value survives a wiped root directory.
	LabelInstance = "podstead.io/instance"

	AnnotationContainerHash          = "io.kubernetes.container.hash"
	AnnotationRestartCount           = "io.kubernetes.container.restartCount"
	AnnotationTerminationMessagePath = "io.kubernetes.container.terminationMessagePath"
	AnnotationTerminationPolicy      = "io.kubernetes.container.terminationMessagePolicy"
	AnnotationTerminationGracePeriod = "io.kubernetes.pod.terminationGracePeriod"
	// AnnotationPreStop is the container's preStop hook as JSON.
	AnnotationPreStop = "io.kubernetes.container.preStopHandler"
	// AnnotationSidecar marks a sidecar with its index in spec.initContainers,
	// which determines the order of termination.
	AnnotationSidecar = "podstead.io/sidecar"
	// AnnotationTerminationMessageHost names the file on the host that is mounted
	// at the termination message path.
	AnnotationTerminationMessageHost = "podstead.io/termination-message-host-path"
	// AnnotationResources holds the cpu and memory that a container was created
	// with.
	AnnotationResources = "podstead.io/container-resources"
	// AnnotationCgroupParent, on a sandbox, is the pod's cgroup as passed to the
	// runtime. A sandbox without it was created without a pod cgroup.
	AnnotationCgroupParent = "podstead.io/cgroup-parent"
	// AnnotationObjects holds the revisions of the objects that the container was
	// created from. Only the code that fills the Inputs interprets it.
	AnnotationObjects = "podstead.io/objects"
)

package cri

// Labels and annotations on sandboxes and containers. The io.kubernetes ones
// are the kubelet's keys, so that crictl, log shippers and monitors know them.
const (
	LabelPodName       = "io.kubernetes.pod.name"
	LabelPodNamespace  = "io.kubernetes.pod.namespace"
	LabelPodUID        = "io.kubernetes.pod.uid"
	LabelContainerName = "io.kubernetes.container.name"
	// LabelInstance marks what this daemon made. Only that is ever stopped or
	// removed. Its value survives a wiped root folder.
	LabelInstance = "podstead.io/instance"

	AnnotationContainerHash          = "io.kubernetes.container.hash"
	AnnotationRestartCount           = "io.kubernetes.container.restartCount"
	AnnotationTerminationMessagePath = "io.kubernetes.container.terminationMessagePath"
	AnnotationTerminationPolicy      = "io.kubernetes.container.terminationMessagePolicy"
	AnnotationTerminationGracePeriod = "io.kubernetes.pod.terminationGracePeriod"
	// AnnotationPreStop is the container's preStop hook as JSON.
	AnnotationPreStop = "io.kubernetes.container.preStopHandler"
	// AnnotationSidecar marks a sidecar with its index in spec.initContainers,
	// by which sidecars end.
	AnnotationSidecar = "podstead.io/sidecar"
	// AnnotationTerminationMessageHost names the file on the host that is
	// mounted at the termination message path.
	AnnotationTerminationMessageHost = "podstead.io/termination-message-host-path"
	// AnnotationResources has the cpu and memory that a container was made with.
	AnnotationResources = "podstead.io/container-resources"
	// AnnotationCgroupParent, of a sandbox, is the pod's cgroup as the runtime
	// was told it. One without was made without a pod cgroup.
	AnnotationCgroupParent = "podstead.io/cgroup-parent"
	// AnnotationObjects holds the revisions of the objects that the container
	// was made of. It means something to whoever fills the Inputs.
	AnnotationObjects = "podstead.io/objects"
)

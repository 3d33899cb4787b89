package pod

import v1 "k8s.io/api/core/v1"

// EmptyDirLimit returns the sizeLimit of an emptyDir on disk in bytes, 0 if there is none. The file system of one in
// memory has its own size.
func EmptyDirLimit(v *v1.Volume) int64 {
	if v.EmptyDir == nil || v.EmptyDir.Medium != v1.StorageMediumDefault || v.EmptyDir.SizeLimit == nil {
		return 0
	}
	return v.EmptyDir.SizeLimit.Value()
}

// EphemeralStorageLimit returns the limit of a pod's ephemeral storage in bytes, 0 if there is none.
func EphemeralStorageLimit(pod *v1.Pod) int64 {
	return EphemeralStorage(pod, func(r *v1.ResourceRequirements) v1.ResourceList { return r.Limits })
}

// EphemeralStorage returns the ephemeral storage of a pod in bytes, by the requests or the limits of its
// containers: that of the regular containers with the sidecars, or that of any init container with the
// sidecars before it if that is more.
func EphemeralStorage(pod *v1.Pod, list func(*v1.ResourceRequirements) v1.ResourceList) int64 {
	amountOf := func(c *v1.Container) int64 {
		amounts := list(&c.Resources)
		return amounts.StorageEphemeral().Value()
	}
	var sidecars, peak, regular int64
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		own := amountOf(c)
		peak = max(peak, sidecars+own)
		if IsSidecar(c) {
			sidecars += own
		}
	}
	for i := range pod.Spec.Containers {
		regular += amountOf(&pod.Spec.Containers[i])
	}
	return max(peak, sidecars+regular)
}

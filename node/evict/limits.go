package evict

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// HasLimits reports whether a pod has a limit of ephemeral storage that is
// enforced by eviction. The file system itself limits an emptyDir in memory.
func HasLimits(pod *v1.Pod) bool {
	for i := range pod.Spec.Volumes {
		if podinfo.EmptyDirLimit(&pod.Spec.Volumes[i]) > 0 {
			return true
		}
	}
	return podinfo.EphemeralStorageLimit(pod) > 0
}

// The limits of ephemeral storage, as the kubelet's metrics call them.
const (
	limitEmptyDir  = "emptydirfs.limit"
	limitContainer = "ephemeralcontainerfs.limit"
	limitPod       = "ephemeralpodfs.limit"
)

// OverLimit returns which limit a pod exceeds and the message of its eviction,
// both empty if it exceeds none. As at the kubelet: an emptyDir exceeds its
// sizeLimit, the writable layer and logs of a container exceed its limit, or the
// pod with its volumes exceeds the limits of all its containers.
func OverLimit(pod *v1.Pod, d Disk) (limit, why string) {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if limit, used := podinfo.EmptyDirLimit(v), d.Volumes[v.Name].Bytes; limit > 0 && used > limit {
			return limitEmptyDir, fmt.Sprintf("Usage of emptyDir volume %q (%s) exceeds its sizeLimit %s.", v.Name,
				formatBytes(used), formatBytes(limit))
		}
	}
	for c := range podinfo.EachContainer(&pod.Spec, podinfo.SpecContainers) {
		limit := c.Resources.Limits.StorageEphemeral().Value()
		if used := d.Rootfs[c.Name].Bytes + d.Logs[c.Name].Bytes; limit > 0 && used > limit {
			return limitContainer, fmt.Sprintf("Container %q uses %s of ephemeral storage, which exceeds its limit %s.", c.Name,
				formatBytes(used), formatBytes(limit))
		}
	}
	if limit, used := podinfo.EphemeralStorageLimit(pod), d.nodefs().add(sum(d.Rootfs)).Bytes; limit > 0 && used > limit {
		return limitPod, fmt.Sprintf("The pod uses %s of ephemeral storage, which exceeds the total limit of its "+
			"containers %s.", formatBytes(used), formatBytes(limit))
	}
	return "", ""
}

// formatBytes formats bytes with a binary unit.
func formatBytes(bytes int64) string {
	for _, unit := range []struct {
		name  string
		bytes int64
	}{{"Gi", 1 << 30}, {"Mi", 1 << 20}, {"Ki", 1 << 10}} {
		switch {
		case bytes < unit.bytes:
		case bytes%unit.bytes == 0:
			return fmt.Sprintf("%d%s", bytes/unit.bytes, unit.name)
		default:
			return fmt.Sprintf("%.1f%s", float64(bytes)/float64(unit.bytes), unit.name)
		}
	}
	return fmt.Sprint(bytes)
}

// Package evict evicts pods before the node runs out of memory, disk or process
// IDs, so that the least important pod is terminated and not the one that the
// kernel, or the first failing write, would pick.
//
// It owns the thresholds, since when each is met, the choice of the pod, and the
// node conditions MemoryPressure, DiskPressure and PIDPressure. Its pure parts
// (Tracker, the ranking, the limits of ephemeral storage) know no clock and no
// host. Evictor runs them: it checks when the kernel reports memory pressure, and
// otherwise rarely.
//
// It reads the node's memory, file systems and process count itself, and the usage
// of pods from its UsageReader. It never stops a container: it requests the
// termination of a pod and waits for it. It never evicts a critical pod.
//
// It departs from the kubelet, which treats every static pod as critical and so
// protects nothing on a node without an API server, and which never restarts an
// evicted pod.
package evict

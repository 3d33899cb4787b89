// Package evict ends pods before the node runs out of memory, disk or process
// IDs, so that the least important pod pays and not whatever the kernel, or the
// first write that fails, would choose.
//
// It owns the thresholds, what is under pressure since when, the choice of the
// pod, and the node's conditions MemoryPressure, DiskPressure and PIDPressure.
// Its pure parts (Tracker, the ranking, the limits of local storage) know no
// clock and no host. Evictor is their runner: it looks when the kernel says that
// memory gets short, and else seldom.
//
// It reads the node's memory, file systems and process count itself, and what
// pods use from whoever measures that. It never stops a container: it asks for a
// pod's end and waits for it. It never ends a critical pod.
//
// It departs from the kubelet, which calls every static pod critical and so
// protects nothing on a node without an API server, and never runs again what
// it has evicted.
package evict

// Package dra prepares the devices of dynamic resource allocation (DRA) for the pods of a cluster.
//
// It owns the connections to the DRA drivers of the node, and the checkpoint of which ResourceClaims
// are prepared for which pods. It reads ResourceClaims through a small interface, and what drivers
// answer. It never allocates a device, which the cluster's scheduler does, never publishes
// ResourceSlices, which drivers do, but has those of drivers that have left or died deleted, and never starts or ends a
// pod.
//
// A claim is in the checkpoint before a driver hears of it, and stays there until the driver has
// unprepared it: a daemon that is killed in between unprepares what the pods no longer use.
//
// Locks: Manager.mu protects the state and is never held during a call to a driver, a request to an
// API server or a write of the checkpoint. Calls for one claim follow one another; a driver that
// hangs delays only the pods with a claim of that driver.
package dra

// Package volumeview shows the volumes of claims: those of manifests, and those that pods of a cluster use,
// as podstead's API lists them, and their usage for metrics.
//
// It owns how long users wait for the measurement of large volumes. It reads the claims of the pods and the
// objects of the manifests, and the usage from its Meter. It never creates a volume, and removes one only
// through its Pods, which check that nothing uses it.
package volumeview

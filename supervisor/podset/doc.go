// Package podset owns the set of pods that the sources want, and which sources have
// delivered. It reads the updates that the sync loop hands to it. It never decides
// anything about a pod.
package podset

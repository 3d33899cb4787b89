// Package podstart owns the response to whether the start of a pod is settled, and waits
// for the starts of all desired pods. It keeps how long starts took, in memory. It reads the set of desired pods and
// their statuses, and never starts or ends anything.
package podstart

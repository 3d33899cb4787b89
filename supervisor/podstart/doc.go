// Package podstart owns the answer to whether the start of a pod is settled, and waits
// for the starts of all wanted pods. It keeps how long starts took, in memory. It reads the set of wanted pods and
// their statuses, and never starts or ends anything.
package podstart

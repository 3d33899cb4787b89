// Package workload turns the documents of a cluster (Deployment, StatefulSet, DaemonSet, Job and
// what comes with them, as helm template prints them) into pods and the objects next to them.
//
// It owns what each kind and each field of a workload becomes. It reads documents that the
// package manifest has decoded. It never validates a pod template: the caller does that with the
// result.
package workload

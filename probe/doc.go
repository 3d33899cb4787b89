// Package probe asks containers whether they have started, live and are ready,
// and performs their lifecycle hooks.
//
// It owns the actions (exec, httpGet, tcpSocket, grpc, sleep), when each probe of
// a container is due, and the results: thresholds, holds and initial values as
// with the kubelet. It reads what it is told of a pod: spec, address, and the
// IDs and start times of the containers that run.
//
// It never kills or restarts anything: whoever reads the results decides. It
// imports no other room; commands in containers go through an Execer.
//
// One loop with one timer waits for the earliest probe that is due. A probe
// takes a goroutine only while it asks, each its own: how long one takes never
// matters to another, and thousands at rest cost memory alone.
package probe

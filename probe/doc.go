// Package probe asks containers whether they have started, live and are ready,
// and runs their lifecycle hooks.
//
// It owns the actions (exec, httpGet, tcpSocket, grpc, sleep), the schedule of
// each container's probes, and the results: thresholds, onHold and initial values
// as with the kubelet. It reads what it is given of a pod: spec, address, and the
// IDs and start times of the containers that run.
//
// It never kills or restarts anything: the reader of the results decides. It
// imports no other package; commands in containers go through an Execer.
//
// One loop with one timer waits for the earliest probe that is due. A probe uses
// a goroutine only while it runs, each its own: a slow probe never delays
// another, and thousands of idle ones cost only memory.
package probe

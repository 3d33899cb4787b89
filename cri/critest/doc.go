// Package critest is an in-memory container runtime: a CRI v1 server that responses
// as containerd does, for the tests of every package that uses a runtime through
// cri.
//
// It owns the fake's state and the faults that a test injects: containers that
// exit, images and pulls that block, calls that fail before or after their
// effect, hang, or lose their connection, lists that are stale, events that are
// dropped or duplicated. It records violations of what must never happen: two
// ready sandboxes of a pod, two running instances of a container, two revisions
// of a pod, a change of another client's pod.
//
// It serves over memory, also inside a testing/synctest bubble, and over a unix
// socket. It starts no process and is never imported by product code.
package critest

// Package status says what a pod's status is, and remembers it.
//
// It owns three things. Generate is a pure function from what is wanted,
// observed and remembered of a pod to its v1.PodStatus. Store holds the
// published statuses and wakes whoever subscribed. Records keeps what no
// runtime can tell after a restart or a reboot in one small file a pod.
//
// It reads its own record files. It never touches the runtime, never decides
// what a pod should do, and never edits what was observed.
package status

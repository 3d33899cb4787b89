// Package status generates the statuses of pods, and stores and records them.
//
// It owns three things. Generate is a pure function from a pod's specification,
// observation and record to its v1.PodStatus. Store holds the published statuses
// and notifies its subscribers. Records keeps, in one small file per pod, what no
// runtime knows after a restart or a reboot.
//
// It reads its own record files. It never touches the runtime, never decides
// what a pod should do, and never edits what was observed.
package status

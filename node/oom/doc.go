// Package oom hears from the kernel which processes it killed for want of
// memory.
//
// It owns the reading of the kernel's log and what its lines mean. It tells of
// each kill once, as it happens, and of none that was before it ran. It reads
// /dev/kmsg; it never decides anything about a pod, and never asks a runtime.
package oom

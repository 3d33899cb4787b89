// Package oom reports the processes that the kernel's OOM killer killed.
//
// It owns the parsing of the kernel log, and the events about kills. It reports each kill once, as it happens,
// and none from before it started, but remembers those that the kernel log still has.
// It reads /dev/kmsg, and /proc for victims that the log does not say the cgroup of; it
// never decides anything about a pod, and never asks a runtime.
package oom

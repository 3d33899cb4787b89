// Package podprobes owns the connection of pods to the prober: which running
// containers are probed, what the results mean for a pod whose postStart hooks
// have not returned, and how the commands of probes and hooks run in a container. It reads the spec, the
// observation and the record of a pod. It never decides when a probe runs, and never kills or restarts a
// container itself.
package podprobes

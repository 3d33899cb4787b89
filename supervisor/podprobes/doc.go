// Package podprobes owns the connection of pods to the prober: which running
// containers are probed, and what the results mean for a pod whose postStart hooks
// have not returned. It reads the spec, the observation and the record of a pod. It
// never probes, kills or restarts a container itself.
package podprobes

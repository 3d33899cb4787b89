// Command bench compares the daemon with a floor: bare CRI calls that do the same work on the
// same runtime in the same run. It prints a table and writes JSON.
//
//	bench [-json FILE] [-runtime containerd-1.6,containerd-2.4] [-rounds N] [-idle 30s] [-leaks 10] [-strict] [-trace]
//	[-only REGEXP]
//
// The measurements, for -only: starts, devices, volumes, restarts, replacements, rollouts, removals,
// gates, probes, rotation, crashloop, idle, evictions and cluster on each runtime; fake, fakeprobes,
// garbage and logs on the fake one; api. -runtime="" skips the real runtimes. The floor of gates
// is podstead without its limit of concurrent calls, which only the linker can remove.
//
// -trace prints the time line of one start, and the medians of many at once, from the spans that
// the daemon exports: what each call of the runtime took, and what passed between the calls.
//
// Times start when a manifest is written to the directory or a process is killed, and end at
// the start time of a container in the runtime: no polling slows either side down.
package main

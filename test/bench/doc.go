// Command bench measures the daemon next to a floor: bare CRI calls that do the
// same on the same runtime, in the same run. It prints a table and writes JSON.
//
//	bench [-json FILE] [-runtime containerd-1.6,containerd-2.4] [-rounds N] [-idle 30s] [-leaks 10] [-strict] [-only REGEXP]
//
// The measurements, for -only: starts, restarts, replacements, removals, probes,
// rotation, crashloop, idle, evictions and cluster on each runtime; fake, fakeprobes, garbage
// and logs on the fake one; api. -runtime="" leaves the real ones out.
//
// Times of the daemon begin when a manifest is put into the directory or a process
// is killed, and end at the time at which the runtime says that a container
// started: nothing is polled that would slow either side down.
package main

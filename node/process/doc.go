// Package process limits the daemon's own process on this node: its memory, and how likely the kernel is to
// kill it for lack of memory.
//
// It owns these settings of the process. It reads the memory of the machine and the limit of the daemon's cgroup,
// and the variables with which users set limits of their own. It never changes another process.
package process

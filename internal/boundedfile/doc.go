// Package boundedfile owns the reading of files that others may have written
// or replaced: files of containers, of other processes and of /proc/PID. It reads
// regular files up to a limit, without waiting and without following a link in the
// last element of the path. It never writes.
package boundedfile

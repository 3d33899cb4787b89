// Package containerlog reads the log of a container from the files that its runtime writes.
//
// It owns the format of these files (CRI lines, and Docker's JSON lines, to which
// cri-dockerd links), the search for the last lines from the end of a file, reading a log
// over its rotated files (N.log becomes N.log.TIME, later N.log.TIME.gz, and N.log is
// created again), and following a log over rotations and over restarts of the container
// (N.log, then N+1.log). It waits for changes through inotify, or polls if the kernel
// has no inotify instance left.
//
// It reads one directory, that of one container of one pod. It never writes there, never
// chooses the directory, and knows no pods: the caller reports when a container will not
// restart.
package containerlog

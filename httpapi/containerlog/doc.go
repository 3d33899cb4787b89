// Package containerlog reads what a container printed, from the files into
// which its runtime writes.
//
// It owns the format of those files (CRI lines, and Docker's JSON lines, to
// which cri-dockerd links), the search for the last lines from a file's end,
// the reading of a log over the files it was rotated to (N.log becomes
// N.log.TIME, later N.log.TIME.gz, and N.log is made again), and the following
// of it over that and over restarts of the container (N.log, then N+1.log). It
// waits for changes through inotify.
//
// It reads one folder, that of one container of one pod. It never writes
// there, never chooses the folder, and knows no pod: the caller says when a
// container has ended for good.
package containerlog

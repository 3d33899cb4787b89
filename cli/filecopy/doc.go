// Package filecopy copies files into and out of a container.
//
// It owns the tar archives that are exchanged with the container's tar, and the way to
// copy a single file without tar.
//
// It reads and writes files of this machine and runs commands in the container. It never
// writes outside the destination, whatever the container sends.
package filecopy

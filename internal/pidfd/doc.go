// Package pidfd awaits and requests the end of processes that are not children of this one.
//
// It owns the descriptors of the processes that are awaited. It reads from the kernel whether they have ended. It
// never signals another process that has got the same number, and never reaps a child.
package pidfd

package usage

import "time"

// RuntimeContainer is the usage of a container as the runtime measured it.
type RuntimeContainer struct {
	ID string
	Usage
	// Writable is the container's writable layer; nil if it was not measured.
	Writable *RuntimeFilesystem
}

// RuntimeSandbox is the usage of a sandbox with all its containers as the runtime
// measured it.
type RuntimeSandbox struct {
	ID string
	Usage
	Interfaces []Interface
}

// RuntimeFilesystem is the used part, in bytes and inodes, of the file system that
// is mounted at Mount.
type RuntimeFilesystem struct {
	At           time.Time
	Mount        string
	Used, Inodes uint64
}

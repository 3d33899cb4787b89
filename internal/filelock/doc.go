// Package filelock locks what two programs of this project must not use at once.
//
// A lock is a file that only this user can open: everyone who can open a file, also only for reading, can
// lock it (flock), and so block every program that waits for it. What is locked may be readable by others, such as a
// directory of manifests; its lock is then a file elsewhere, named by the device and the inode.
//
// It owns the directory of locks, /run/podstead for root, which a reboot empties. It reads the owner and the
// mode of what it opens. It never follows a link, and never removes a lock file.
package filelock

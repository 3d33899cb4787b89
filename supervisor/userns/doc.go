// Package userns reserves a range of the host's user and group IDs for each pod with
// hostUsers: false. No two pods share a range.
//
// It owns the file "userns" in such a pod's directory, with which the range survives
// a restart of the daemon; when the directory is removed, the range is free again. It
// reads the directories of the other pods. It never creates a user namespace: the
// runtime does.
package userns

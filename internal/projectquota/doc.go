// Package projectquota limits the size of directories with the project quotas of ext4 and XFS.
//
// It owns the range of project IDs from First, of which each directory gets one that nothing else
// on its file system uses. It reads /etc/projects and /etc/projid, which name the IDs of others, and
// what the kernel records of a directory: its project ID is on disk, so that there is no other
// record. The limit that a deleted directory has left is removed when its ID is given out again. It
// never changes a directory with an ID that is not in the range, and never decides which directories
// are limited.
package projectquota

// Package userns gives each pod with hostUsers: false a range of the host's
// user and group IDs that no other pod has.
//
// It owns the file "userns" in such a pod's folder, by which the range outlives
// the daemon; with the folder, the range is free again. It reads the folders of
// the other pods. It never makes a user namespace: that is the runtime's work.
package userns

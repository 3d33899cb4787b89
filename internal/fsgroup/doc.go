// Package fsgroup gives the files of a volume to the group of a pod (fsGroup).
//
// It owns the kubelet's rule which mode files and directories get, and when a volume is left alone. It reads and
// changes the owner and the mode of files, and never follows a link, crosses a mount point or touches content.
package fsgroup

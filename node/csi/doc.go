// Package csi publishes volumes of CSI drivers to the pods of this node (CSI v1, service Node).
//
// It owns which drivers are registered, the directories in which their volumes are staged and
// published, and the record of these volumes on the disk. A volume is recorded before its driver
// is called, so that it is unpublished and unstaged even if its pod's manifest is gone and the
// daemon was killed in between. It reads the mount table, and what drivers respond.
//
// Calls go one way: the supervisor hands a volume down as plain values (internal/csivolume) and gets a path or an
// error; what changes later is a wake-up (Changed, Subscribe), after which the pods and the cluster read it.
//
// It never deletes the content of a volume: of the directories that it creates it removes empty
// ones only. It never mounts; it unmounts only what a driver has left mounted at a path that it has
// reported as unpublished. It calls a driver only for a pod that uses it, in the goroutine of that
// pod; an expansion that takes long ends in a goroutine of its own, within the timeout of a call.
//
// The messages of the API are encoded here, in 385 lines: the generated types of container-storage-interface/spec v1.12
// add 442 kB to the program of a release (amd64, 33.17 to 33.61 MB), since they register all 79 messages of the
// API, and a node needs 12.
package csi

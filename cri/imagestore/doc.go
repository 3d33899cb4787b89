// Package imagestore keeps the images of the runtime sound: what a pull or a load has unpacked is on the disk before
// anything uses it, also if the power fails at the next moment.
//
// It owns the end of each pull and load, at which the file system of the images is synced: no container runtime syncs
// the files that it unpacks by default, and an image with files that a power cut has emptied counts as present forever.
// It owns the journal of the pulls and loads in progress: what is in it after a boot was not complete when the machine
// went down, and is removed before anything uses it.
//
// It reads what the runtime reports of its images. It never decides which images a pod needs, and never removes one
// that it did not see come.
package imagestore

// Package imageload loads images from an archive into the container runtime. CRI
// has no call for this, so each runtime needs a way of its own: the private
// containerd pulls from a registry on loopback, another containerd imports with
// its own ctr command, and for the others the error names the command to use.
//
// It owns the choice of that way and the directory in which an archive is kept
// while it is loaded. It reads the archive (through package archive) and what the
// runtime reports of its images. It never removes an image and never asks a remote
// registry.
package imageload

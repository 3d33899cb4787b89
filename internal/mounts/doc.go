// Package mounts reads the kernel's table of mounts so that one odd line costs at most
// one mount.
//
// It also reports whether something is mounted on a path.
//
// It owns that tolerance: the parser of moby/sys/mountinfo fails as a whole for a line
// of more than 64 KiB (an overlay of very many layers) or with a source that its file
// system prints unescaped, and a foreign mount must not keep pods from terminating. It
// reads /proc/self/mountinfo or what it is given, and never changes a mount.
package mounts

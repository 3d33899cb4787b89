package access

import (
	"io/fs"
	"syscall"
)

// stateOf is what a file looks like; a file that was put in its place by a
// rename has another inode.
func fileStateOf(fi fs.FileInfo) fileState {
	s := fileState{changed: fi.ModTime(), size: fi.Size(), mode: fi.Mode()}
	if sys, ok := fi.Sys().(*syscall.Stat_t); ok {
		s.inode = sys.Ino
	}
	return s
}

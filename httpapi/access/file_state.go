package access

import (
	"io/fs"
	"syscall"
)

// fileStateOf returns the state of a file. A file that was replaced by a rename has another
// inode.
func fileStateOf(fi fs.FileInfo) fileState {
	s := fileState{changed: fi.ModTime(), size: fi.Size(), mode: fi.Mode()}
	if sys, ok := fi.Sys().(*syscall.Stat_t); ok {
		s.inode = sys.Ino
	}
	return s
}

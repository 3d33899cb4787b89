package edit

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/podstead/podstead/manifest"
)

// racyTime is the time for which a file may change again without another time of change: clocks of
// filesystems are coarse.
const racyTime = 2 * time.Second

// Fingerprint identifies the state of the manifests at a path without reading them: what Read returns
// is the same while it is the same. It is empty if that is not certain, because something has just
// changed or cannot be looked at.
func Fingerprint(path string) string {
	certain := time.Now().Add(-racyTime)
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	var b strings.Builder
	if !addFile(&b, path, certain) {
		return ""
	}
	if !info.IsDir() {
		return b.String()
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return ""
	}
	for _, e := range entries {
		if manifest.IsManifestFile(e.Name()) && !addFile(&b, filepath.Join(path, e.Name()), certain) {
			return ""
		}
	}
	return b.String()
}

// addFile adds the state of a file and of its target if it is a link.
func addFile(b *strings.Builder, path string, certain time.Time) bool {
	for _, stat := range []func(string) (fs.FileInfo, error){os.Lstat, os.Stat} {
		info, err := stat(path)
		if err != nil {
			return false
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return false
		}
		changed := time.Unix(st.Ctim.Unix())
		if !changed.Before(certain) {
			return false
		}
		fmt.Fprintf(b, "%s %d %d %d %d %v\n", path, st.Dev, st.Ino, st.Size, changed.UnixNano(), info.Mode())
		if info.Mode()&fs.ModeSymlink == 0 {
			return true
		}
	}
	return true
}

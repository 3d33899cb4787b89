package bed

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
)

const (
	// base is on disk and outlives the program, so that a bed which was killed can be found.
	base      = "/var/tmp"
	dirPrefix = "podstead-bed-"
)

var containerID = regexp.MustCompile(`^[0-9a-f]{64}$`)

// sweep removes what is left of beds whose program was killed. Their processes,
// mounts, bridges and rules ended with their namespaces; folders and empty
// cgroups did not.
func sweep() {
	dirs, _ := filepath.Glob(filepath.Join(base, dirPrefix+"*"))
	for _, dir := range dirs {
		pid, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(dir), dirPrefix))
		if err != nil || syscall.Kill(pid, 0) == nil {
			continue
		}
		removeBed(dir)
	}
}

// removeBed removes the cgroups of a bed's containers and its folder.
func removeBed(dir string) {
	ids := map[string]bool{}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil
		}
		if d.Name() == "io.containerd.snapshotter.v1.overlayfs" || d.Name() == "rootfs" {
			return fs.SkipDir
		}
		if containerID.MatchString(d.Name()) {
			ids[d.Name()] = true
			return fs.SkipDir
		}
		return nil
	})
	// A cgroup with processes in it cannot be removed, so this can end nothing.
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && ids[d.Name()] {
			_ = os.Remove(path)
			return fs.SkipDir
		}
		return nil
	})
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, "test bed: cannot remove", dir+":", err)
	}
}

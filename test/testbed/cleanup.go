package testbed

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
	// baseDir is on disk and outlives the program, so that the directory of a killed program can be found.
	baseDir   = "/var/tmp"
	dirPrefix = "podstead-bed-"
)

var containerID = regexp.MustCompile(`^[0-9a-f]{64}$`)

// removeStale removes what killed programs left behind. The kernel removed their processes,
// mounts, bridges and rules with the namespaces, but not directories and empty cgroups.
func removeStale() {
	dirs, _ := filepath.Glob(filepath.Join(baseDir, dirPrefix+"*"))
	for _, dir := range dirs {
		pid, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(dir), dirPrefix))
		if err != nil || syscall.Kill(pid, 0) == nil {
			continue
		}
		removeTestbed(dir)
	}
}

// removeTestbed removes the cgroups of a test bed's containers and its directory.
func removeTestbed(dir string) {
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
	ids[filepath.Base(dir)] = true // the cgroup of CgroupCommand
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && ids[d.Name()] {
			RemoveCgroup(path)
			return fs.SkipDir
		}
		return nil
	})
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, "testbed: cannot remove", dir+":", err)
	}
}

// RemoveCgroup removes a cgroup and its children. The kernel does not remove a cgroup with
// processes, so this cannot kill anything.
func RemoveCgroup(dir string) {
	below, _ := os.ReadDir(dir)
	for _, d := range below {
		if d.IsDir() {
			RemoveCgroup(filepath.Join(dir, d.Name()))
		}
	}
	_ = os.Remove(dir)
}

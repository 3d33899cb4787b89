package testbed

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
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
// mounts, bridges and rules ended with their namespaces; directories and empty
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

// removeBed removes the cgroups of a bed's containers and its directory.
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
	ids[filepath.Base(dir)] = true // the cgroup of CgroupCommand
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && ids[d.Name()] {
			removeCgroup(path)
			return fs.SkipDir
		}
		return nil
	})
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, "test bed: cannot remove", dir+":", err)
	}
}

// removeCgroup removes a cgroup and those below it. One with processes in it cannot
// be removed, so this can end nothing.
func removeCgroup(dir string) {
	below, _ := os.ReadDir(dir)
	for _, d := range below {
		if d.IsDir() {
			removeCgroup(filepath.Join(dir, d.Name()))
		}
	}
	_ = os.Remove(dir)
}

// CgroupCommand is a command that first moves itself into a cgroup of the bed's own
// in every hierarchy without controllers, for a program that makes cgroups next to its own.
func CgroupCommand(name string, args ...string) *exec.Cmd {
	script := `for root in /sys/fs/cgroup /sys/fs/cgroup/unified /sys/fs/cgroup/systemd; do
	[ -e "$root/cgroup.procs" ] || continue
	mkdir -p "$root/$0" && echo $$ > "$root/$0/cgroup.procs" || exit
done
exec "$@"`
	return exec.Command("sh", append([]string{"-c", script, filepath.Base(Dir()), name}, args...)...)
}

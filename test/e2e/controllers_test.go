package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"

	"github.com/podstead/podstead/internal/mounts"
)

// controllerMount returns where a cgroup v1 controller is mounted. A host on which it is not
// cannot show what a test is about; the error says how to mount it.
func controllerMount(controller string) (string, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	defer f.Close()
	list, err := mounts.Read(f, mountinfo.FSTypeFilter("cgroup"))
	if err != nil {
		return "", err
	}
	for _, m := range list {
		if m.Root == "/" && slices.Contains(strings.Split(m.VFSOptions, ","), controller) {
			return m.Mountpoint, nil
		}
	}
	return "", fmt.Errorf("this test needs the cgroup v1 controller %[1]s, which is not mounted: mount -t cgroup -o %[1]s cgroup /sys/fs/cgroup/%[1]s", controller)
}

// controllerPath returns the directory of a cgroup in a controller's hierarchy.
func controllerPath(controller, cgroup string) (string, error) {
	dir, err := controllerMount(controller)
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, cgroup), nil
}

package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/sys/mountinfo"
	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/internal/mounts"
)

// CgroupPath returns the cgroup of a process in a controller's hierarchy.
func CgroupPath(pid int, controller string) (string, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(data)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) == 3 && slices.Contains(strings.Split(parts[1], ","), controller) {
			return parts[2], nil
		}
	}
	return "", fmt.Errorf("process %d is in no cgroup of %s: %s", pid, controller, data)
}

// CgroupValue reads a file of a cgroup.
func CgroupValue(controller, path, file string) (string, error) {
	dir, err := ControllerPath(controller, path)
	if err != nil {
		return "", err
	}
	data, err := os.ReadFile(filepath.Join(dir, file))
	return strings.TrimSpace(string(data)), err
}

// MustHaveValue fails the test unless a file of a cgroup has this content.
func (n *Node) MustHaveValue(controller, path, file, want string) {
	n.T.Helper()
	if got, err := CgroupValue(controller, path, file); err != nil || got != want {
		n.T.Errorf("%s of %s is %q (%v), want %q", file, path, got, err, want)
	}
}

// PodCgroups returns the remaining directories of a pod's cgroup in all hierarchies.
func PodCgroups(uid string) []string {
	var found []string
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.Contains(d.Name(), uid) {
			found = append(found, path)
		}
		return nil
	})
	return found
}

// Resources returns the resources of a container, to be appended to the manifest of SleepPod or ScriptPod.
func Resources(lists string) string { return "      resources: {" + lists + "}\n" }

// HasController reports whether a cgroup controller can be used: it is mounted, or enabled in
// cgroup v2.
func HasController(controller string) bool {
	if _, err := controllerMount(controller); err == nil {
		return true
	}
	for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		text, err := os.ReadFile(filepath.Join(root, "cgroup.controllers"))
		if err == nil && slices.Contains(strings.Fields(string(text)), controller) {
			return true
		}
	}
	return false
}

// UnmountedControllers returns the cgroup v1 controllers that are active and not mounted, as on a
// host that mounts only some of them.
func UnmountedControllers(t *testing.T) (names []string) {
	t.Helper()
	text, err := os.ReadFile("/proc/cgroups")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line) // name, hierarchy, cgroups, enabled
		if len(f) == 4 && f[1] != "0" && f[3] == "1" && !HasController(f[0]) {
			names = append(names, f[0])
		}
	}
	return names
}

// Needs states which cgroup controllers a test needs, before it starts the node. On a host
// without one of them it asserts what the documentation reports about such a host instead, and
// returns false: the test is over.
func (n *Node) Needs(controllers ...string) bool {
	n.T.Helper()
	missing := slices.DeleteFunc(controllers, HasController)
	if len(missing) == 0 {
		return true
	}
	n.T.Logf("this host has no cgroup controller %v: asserting what is documented for it", missing)
	n.WriteManifest("plain.yaml", SleepPod("plain", "one"))
	n.WriteManifest("limited.yaml", SleepPod("limited", "one")+Resources("limits: {cpu: 200m, memory: 40Mi}"))
	n.MustStart()
	n.AwaitReady("plain")
	if slices.Contains(missing, "memory") {
		n.AwaitStatus("limited", "it waits for the controller", func(p v1.Pod) error {
			if p.Status.Phase != v1.PodPending || p.Status.Reason != "FailedCreatePodContainer" ||
				!strings.Contains(p.Status.Message, "memory") {
				return fmt.Errorf("%s, %s: %s", p.Status.Phase, p.Status.Reason, p.Status.Message)
			}
			return nil
		})
	} else {
		n.AwaitReady("limited")
	}
	out, _, _ := n.Podstead("check", "--api-socket", n.Socket())
	for _, name := range missing {
		if !strings.Contains(out, "controller "+name+" is active but not mounted") &&
			!strings.Contains(out, name+" controller is disabled") {
			n.T.Errorf("podstead check does not name the controller %s:\n%s", name, out)
		}
	}
	return false
}

// controllerMount returns where a cgroup v1 controller is mounted. A host on which it is not
// cannot show what a test is about; the error reports how to mount it.
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
	return "", fmt.Errorf("this test needs the cgroup v1 controller %[1]s, which is not mounted: mount -t cgroup -o "+
		"%[1]s cgroup /sys/fs/cgroup/%[1]s", controller)
}

// ControllerPath returns the directory of a cgroup in a controller's hierarchy.
func ControllerPath(controller, cgroup string) (string, error) {
	dir, err := controllerMount(controller)
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, cgroup), nil
}

// AllowedCPUs returns the CPUs on which the kernel lets a process run, and those of its cgroup.
func AllowedCPUs(pid int) (process, group string, err error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return "", "", err
	}
	for line := range strings.Lines(string(data)) {
		if text, ok := strings.CutPrefix(line, "Cpus_allowed_list:"); ok {
			process = strings.TrimSpace(text)
		}
	}
	path, err := CgroupPath(pid, "cpuset")
	if err != nil {
		return "", "", err
	}
	group, err = CgroupValue("cpuset", path, "cpuset.cpus")
	return process, group, err
}

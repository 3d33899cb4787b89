package e2e

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

// hasController reports whether a cgroup controller can be used: it is mounted, or enabled in
// cgroup v2.
func hasController(controller string) bool {
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

// unmountedControllers returns the cgroup v1 controllers that are active and not mounted, as on a
// host that mounts only some of them.
func unmountedControllers(t *testing.T) (names []string) {
	t.Helper()
	text, err := os.ReadFile("/proc/cgroups")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line) // name, hierarchy, cgroups, enabled
		if len(f) == 4 && f[1] != "0" && f[3] == "1" && !hasController(f[0]) {
			names = append(names, f[0])
		}
	}
	return names
}

// needs states which cgroup controllers a test needs, before it starts the node. On a host
// without one of them it asserts what the documentation says about such a host instead, and
// returns false: the test is over.
func (n *node) needs(controllers ...string) bool {
	n.t.Helper()
	missing := slices.DeleteFunc(controllers, hasController)
	if len(missing) == 0 {
		return true
	}
	n.t.Logf("this host has no cgroup controller %v: asserting what is documented for it", missing)
	n.writeManifest("plain.yaml", sleepPod("plain", "one"))
	n.writeManifest("limited.yaml", sleepPod("limited", "one")+resources("limits: {cpu: 200m, memory: 40Mi}"))
	n.start()
	n.awaitReady("plain")
	if slices.Contains(missing, "memory") {
		n.awaitStatus("limited", "it waits for the controller", func(p v1.Pod) error {
			if p.Status.Phase != v1.PodPending || p.Status.Reason != "FailedCreatePodContainer" || !strings.Contains(p.Status.Message, "memory") {
				return fmt.Errorf("%s, %s: %s", p.Status.Phase, p.Status.Reason, p.Status.Message)
			}
			return nil
		})
	} else {
		n.awaitReady("limited")
	}
	out, _, _ := n.podstead("check", "--api-socket", n.Socket())
	for _, name := range missing {
		if !strings.Contains(out, "controller "+name+" is active but not mounted") && !strings.Contains(out, name+" controller is disabled") {
			n.t.Errorf("podstead check does not name the controller %s:\n%s", name, out)
		}
	}
	return false
}

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

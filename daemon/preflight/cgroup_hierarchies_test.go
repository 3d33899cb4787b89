package preflight

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The command for unmounted hierarchies also links the controllers for which an empty directory
// was made, is the same when it is repeated, and a hierarchy that cannot be mounted stops no other.
func TestMountHierarchies(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "cpu"), 0o755); err != nil {
		t.Fatal(err)
	}
	command := mountAll([]hierarchy{{"1", []string{"broken"}}, {"2", []string{"cpu", "cpuacct"}},
		{"3", []string{"net_cls", "net_prio"}}})
	command = `mount() { case "$*" in *broken*) return 1;; esac; }; ` + strings.ReplaceAll(command, "/sys/fs/cgroup", root)
	for range 2 {
		if out, err := exec.Command("sh", "-c", command).CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%v: %s", err, out)
		}
		for name, want := range map[string]string{"cpu": "cpu,cpuacct", "cpuacct": "cpu,cpuacct",
			"net_cls": "net_cls,net_prio", "net_prio": "net_cls,net_prio"} {
			if got, err := os.Readlink(filepath.Join(root, name)); got != want {
				t.Errorf("%s leads to %q (%v), want %q", name, got, err, want)
			}
		}
	}
}

// Controllers of one hierarchy are mounted by one command.
func TestMountHierarchyOnce(t *testing.T) {
	t.Parallel()
	b := newTestHost(t)
	b.write("proc/cgroups",
		"#subsys_name\thierarchy\tnum_cgroups\tenabled\nmemory\t4\t9\t1\ncpu\t5\t9\t1\npids\t5\t9\t1\n")
	b.write("proc/self/mountinfo", "30 22 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory,cpuset\n")
	list := controllers(&b.host, &b.settings)
	if len(list) != 2 || !strings.Contains(list[0].Fix, "mount -t cgroup -o cpu,pids ") ||
		list[1].Fix != "the command for cpu mounts it too" {
		t.Errorf("got %+v", list)
	}
}

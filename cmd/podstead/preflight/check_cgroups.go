package preflight

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
)

// cgroupMounts are the controllers of version 1 that are mounted, and where the
// tree of version 2 is, empty if it is not. What is mounted read-only does not
// count.
func (h *Host) cgroupMounts() (v1 []string, v2 string, readOnly bool) {
	mounts, err := mountinfo.GetMountsFromReader(strings.NewReader(h.line("proc/self/mountinfo")), mountinfo.FSTypeFilter("cgroup", "cgroup2"))
	if err != nil {
		return nil, "", false
	}
	for _, m := range mounts {
		switch {
		case !writable(m.Options):
			readOnly = true
		case m.FSType == "cgroup2":
			v2 = m.Mountpoint
		default:
			v1 = append(v1, strings.Split(m.VFSOptions, ",")...)
		}
	}
	return v1, v2, readOnly
}

func writable(options string) bool { return slices.Contains(strings.Split(options, ","), "rw") }

func hierarchies(h *Host, _ *Settings) []Finding {
	v1, v2, readOnly := h.cgroupMounts()
	switch {
	case slices.Contains(v1, "memory"):
		return ok("cgroups", "version 1 is mounted")
	case v2 != "" && h.line(filepath.Join(v2, "cgroup.controllers")) != "":
		return ok("cgroups", "version 2 is mounted at %s", v2)
	case readOnly:
		return fail("cgroups", "mount -o remount,rw /sys/fs/cgroup", "the cgroups are mounted read-only; neither the runtime nor podstead can limit a pod")
	case len(v1) > 0:
		return nil // the controllers tell
	}
	return fail("cgroups", "mount -t cgroup2 none /sys/fs/cgroup", "no cgroups are mounted; no container can be limited, nor found")
}

func controllers(h *Host, _ *Settings) (list []Finding) {
	v1, v2, _ := h.cgroupMounts()
	if len(v1) == 0 && v2 == "" {
		return nil
	}
	has := v1
	if v2 != "" {
		has = append(has, strings.Fields(h.line(filepath.Join(v2, "cgroup.controllers")))...)
	}
	for _, c := range []struct {
		name string
		fail bool
		fix  string
		why  string
	}{
		{"memory", true, "add cgroup_enable=memory to the kernel's command line (GRUB_CMDLINE_LINUX in /etc/default/grub, or cmdline.txt), and boot",
			"pods with a memory limit do not start, and others may use all there is"},
		{"cpu", true, "boot a kernel with CONFIG_CGROUP_SCHED and CONFIG_CFS_BANDWIDTH", "limits and shares of cpu cannot be kept"},
		{"pids", false, "boot a kernel with CONFIG_CGROUP_PIDS", "the number of processes of a pod cannot be limited"},
		{"cpuset", false, "boot a kernel with CONFIG_CPUSETS", "pods cannot be bound to CPUs"},
	} {
		switch {
		case slices.Contains(has, c.name):
		case c.fail:
			list = append(list, fail("cgroups", c.fix, "the kernel's %s controller is off: %s", c.name, c.why)...)
		default:
			list = append(list, warn("cgroups", c.fix, "the kernel's %s controller is off: %s", c.name, c.why)...)
		}
	}
	pages, _ := filepath.Glob(h.path("sys/kernel/mm/hugepages/*/nr_hugepages"))
	for _, file := range pages {
		if n, err := os.ReadFile(file); err == nil && strings.TrimSpace(string(n)) != "0" && !slices.Contains(has, "hugetlb") {
			list = append(list, warn("cgroups", "boot a kernel with CONFIG_CGROUP_HUGETLB", "the machine has hugepages, and the kernel's hugetlb controller is off: pods that ask for some do not start")...)
			break
		}
	}
	return list
}

// cgroupDriver: two that write to one tree undo each other's work.
func cgroupDriver(h *Host, s *Settings) []Finding {
	has := s.Runtime.CgroupDriver
	const fix = "SystemdCgroup = true in the runc options of /etc/containerd/config.toml, then systemctl restart containerd"
	switch {
	case has == "":
		return nil
	case s.CgroupDriver != "" && s.CgroupDriver != has:
		return fail("cgroup-driver", "podstead run without --cgroup-driver", "podstead is told to use %s, and the runtime uses %s: containers would not be in their pods' cgroups", s.CgroupDriver, has)
	}
	v1, v2, _ := h.cgroupMounts()
	systemd := h.exists("run/systemd/system")
	switch {
	case has == "systemd" && !systemd:
		return fail("cgroup-driver", "SystemdCgroup = false in the runc options of /etc/containerd/config.toml, then restart containerd",
			"the runtime asks systemd for cgroups, and systemd does not run")
	case has == "cgroupfs" && systemd && v2 != "" && !slices.Contains(v1, "memory"):
		return warn("cgroup-driver", fix, "the runtime makes cgroups beside systemd, which on version 2 takes the tree for its own; systemd daemon-reload may undo limits")
	}
	return ok("cgroup-driver", "it is %s for both podstead and the runtime", has)
}

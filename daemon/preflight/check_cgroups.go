package preflight

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"

	"github.com/podstead/podstead/internal/mounts"
)

// cgroupMounts returns the mounted cgroup v1 controllers and the mount point of cgroup v2,
// empty if it is not mounted. Read-only mounts are not counted, only reported.
func (h *Host) cgroupMounts() (v1 []string, v2 string, readOnly bool) {
	found, err := mounts.Read(strings.NewReader(h.text("proc/self/mountinfo")),
		mountinfo.FSTypeFilter("cgroup", "cgroup2"))
	if err != nil {
		return nil, "", false
	}
	for _, m := range found {
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
		return ok("cgroups", "cgroup v1 is mounted")
	case v2 != "" && h.text(filepath.Join(v2, "cgroup.controllers")) != "":
		return ok("cgroups", "cgroup v2 is mounted at %s", v2)
	case readOnly:
		return repaired(fail("cgroups", "mount -o remount,rw /sys/fs/cgroup",
			"cgroups are mounted read-only: resource limits of pods cannot be set"))
	case len(v1) > 0:
		return nil // reported by the check of the controllers
	}
	return repaired(fail("cgroups", "mount -t cgroup2 none /sys/fs/cgroup",
		"no cgroups are mounted: containers cannot be limited or tracked"))
}

// blindRuntime is what a host with a cgroup v1 controller that is not mounted costs.
const blindRuntime = "the runtime cannot read the metrics of containers nor tell which of them were killed for " +
	"memory, and resizes may fail"

func controllers(h *Host, _ *Settings) (list []Finding) {
	v1, v2, readOnly := h.cgroupMounts()
	if len(v1) == 0 && v2 == "" {
		return nil
	}
	var unmounted []hierarchy
	if !readOnly {
		unmounted = h.unmounted(v1)
	}
	enabled := slices.Clone(v1)
	if v2 != "" {
		enabled = append(enabled, strings.Fields(h.text(filepath.Join(v2, "cgroup.controllers")))...)
	}
	reported := map[string]string{} // the first controller, by the number of the hierarchy
	for _, c := range []struct {
		name   string
		fail   bool
		fix    string
		effect string
	}{
		{"memory", true, "add cgroup_enable=memory to the kernel command line (GRUB_CMDLINE_LINUX in /etc/default/grub, or " +
			"cmdline.txt) and reboot",
			"pods with a memory limit fail to start, and memory usage is not limited"},
		{"cpu", true, "use a kernel with CONFIG_CGROUP_SCHED and CONFIG_CFS_BANDWIDTH",
			"CPU limits and requests cannot be enforced"},
		{"pids", false, "use a kernel with CONFIG_CGROUP_PIDS", "the number of processes of a pod cannot be limited"},
		{"cpuset", false, "use a kernel with CONFIG_CPUSETS", "pods cannot be bound to CPUs"},
	} {
		text := "the kernel's " + c.name + " controller is disabled: " + c.effect
		for _, u := range unmounted {
			if slices.Contains(u.controllers, c.name) {
				text, c.fix = u.notMounted(c.name)+": "+c.effect+", and "+blindRuntime, u.mount()
				if first := reported[u.number]; first != "" {
					c.fix = "the command for " + first + " mounts it too"
				} else {
					reported[u.number] = c.name
				}
			}
		}
		switch {
		case slices.Contains(enabled, c.name):
		case c.fail:
			list = append(list, fail("cgroups", c.fix, "%s", text)...)
		default:
			list = append(list, warn("cgroups", c.fix, "%s", text)...)
		}
	}
	var names []string
	var others []hierarchy
	for _, u := range unmounted {
		if reported[u.number] == "" {
			names, others = append(names, u.controllers...), append(others, u)
		}
	}
	if len(names) > 0 {
		list = append(list, warn("cgroups", mountAll(others),
			"these cgroup v1 controllers are active but not mounted: %s: %s", strings.Join(names, ", "), blindRuntime)...)
	}
	pages, _ := filepath.Glob(h.path("sys/kernel/mm/hugepages/*/nr_hugepages"))
	for _, file := range pages {
		if n, err := os.ReadFile(file); err == nil && strings.TrimSpace(string(n)) != "0" &&
			!slices.Contains(enabled, "hugetlb") {
			list = append(list, warn("cgroups", "use a kernel with CONFIG_CGROUP_HUGETLB", "the host has huge pages, but the "+
				"kernel's hugetlb controller is disabled: pods that request huge pages fail to start")...)
			break
		}
	}
	return list
}

// cgroupDriver checks that podstead, the runtime and systemd agree: two managers of one
// cgroup tree undo each other's changes.
func cgroupDriver(h *Host, s *Settings) []Finding {
	used := s.Runtime.CgroupDriver
	fix := h.driverFix(&s.Runtime, "systemd")
	if s.Runtime.Private {
		// podstead configures it while none of its containers runs.
		fix = "reboot: the private containerd uses systemd then, unless --cgroup-driver (cgroupDriver) is cgroupfs"
	}
	switch {
	case used == "":
		return nil
	case s.CgroupDriver != "" && s.CgroupDriver != used && s.Runtime.Private &&
		(s.CgroupDriver == "cgroupfs" || h.exists("run/systemd/system")):
		return warn("cgroup-driver", "reboot", "podstead is configured to use %s, but the private containerd still uses "+
			"%s, as do the containers that run: the driver changes when none runs", s.CgroupDriver, used)
	case s.CgroupDriver != "" && s.CgroupDriver != used:
		return fail("cgroup-driver", "podstead run without --cgroup-driver", "podstead is configured to use %s, but the "+
			"runtime uses %s: containers would not be placed in the cgroups of their pods", s.CgroupDriver, used)
	}
	v1, v2, _ := h.cgroupMounts()
	systemd := h.exists("run/systemd/system")
	switch {
	case used == "systemd" && !systemd:
		return fail("cgroup-driver", h.driverFix(&s.Runtime, "cgroupfs"),
			"the runtime uses the systemd cgroup driver, but systemd is not running")
	case used == "cgroupfs" && systemd && v2 != "" && !slices.Contains(v1, "memory"):
		return warn("cgroup-driver", fix,
			"the runtime uses cgroupfs although systemd manages the cgroup v2 tree: systemctl daemon-reload may undo limits")
	}
	return ok("cgroup-driver", "podstead and the runtime both use %s", used)
}

// driverFix returns how a runtime is configured to use a cgroup driver.
func (h *Host) driverFix(r *Runtime, driver string) string {
	switch service(r.Endpoint) {
	case "crio":
		return fmt.Sprintf("printf '[crio.runtime]\\ncgroup_manager = \"%s\"\\nconmon_cgroup = \"pod\"\\n' "+
			">/etc/crio/crio.conf.d/90-cgroup-driver.conf && systemctl restart crio", driver)
	case "cri-docker":
		return fmt.Sprintf("\"exec-opts\": [\"native.cgroupdriver=%s\"] in /etc/docker/daemon.json, then restart docker "+
			"and cri-docker", driver)
	}
	edit, done := h.containerdConfig(r).setCgroupDriver(driver == "systemd")
	if !done {
		return edit + ", then restart containerd"
	}
	return edit + h.restart(r)
}

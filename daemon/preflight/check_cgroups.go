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

// cgroupMounts are the mounted cgroup v1 controllers and the mount point of cgroup v2, empty if it is not mounted.
// Read-only mounts are not counted, only reported: those whose controllers are not mounted writable elsewhere.
type cgroupMounts struct {
	v1       []string
	v2       string
	readOnly []readOnlyMount
}

// readOnlyMount is a mount of cgroups that is read-only: of the controllers of cgroup v1, or of cgroup v2 without any.
type readOnlyMount struct {
	path        string
	controllers []string
	// all: the hierarchy is read-only, and so are all of its mounts.
	all bool
}

func (h *Host) cgroupMounts() (c cgroupMounts) {
	found, err := mounts.Read(strings.NewReader(h.text("proc/self/mountinfo")),
		mountinfo.FSTypeFilter("cgroup", "cgroup2"))
	if err != nil {
		return c
	}
	for _, m := range found {
		of := readOnlyMount{path: m.Mountpoint, all: !writable(m.VFSOptions)}
		if m.FSType == "cgroup" {
			of.controllers = controllersOf(m.VFSOptions)
		}
		switch {
		case of.all || !writable(m.Options):
			c.readOnly = append(c.readOnly, of)
		case m.FSType == "cgroup2":
			c.v2 = m.Mountpoint
		default:
			c.v1 = append(c.v1, of.controllers...)
		}
	}
	c.readOnly = slices.DeleteFunc(c.readOnly, func(r readOnlyMount) bool {
		if r.controllers == nil { // cgroup v2, which a host with cgroup v1 does not need
			return c.v2 != "" || slices.Contains(c.v1, "memory")
		}
		return !slices.ContainsFunc(r.controllers, func(name string) bool { return !slices.Contains(c.v1, name) })
	})
	return c
}

// controllersOf returns the controllers in the mount options of a cgroup v1 hierarchy, such as "rw,xattr,cpu,cpuacct"
// or "rw,name=systemd", which has none.
func controllersOf(options string) []string {
	others := []string{"rw", "ro", "xattr", "clone_children", "noprefix", "cpuset_v2_mode", "favordynmods"}
	return slices.DeleteFunc(strings.Split(options, ","),
		func(o string) bool { return slices.Contains(others, o) || strings.Contains(o, "=") })
}

func writable(options string) bool { return slices.Contains(strings.Split(options, ","), "rw") }

// remount returns the command that makes the mount writable.
func (r readOnlyMount) remount() string {
	if r.all {
		return "mount -o remount,rw " + r.path
	}
	return "mount -o remount,bind,rw " + r.path
}

func hierarchies(h *Host, _ *Settings) []Finding {
	c := h.cgroupMounts()
	var paths, commands []string
	for _, r := range c.readOnly {
		paths, commands = append(paths, r.path), append(commands, r.remount())
	}
	switch {
	case len(paths) > 0:
		return repaired(fail("cgroups", strings.Join(commands, " && "),
			"cgroups are mounted read-only (%s): resource limits of pods cannot be set", strings.Join(paths, ", ")))
	case slices.Contains(c.v1, "memory"):
		return ok("cgroups", "cgroup v1 is mounted")
	case c.v2 != "" && h.text(filepath.Join(c.v2, "cgroup.controllers")) != "":
		return ok("cgroups", "cgroup v2 is mounted at %s", c.v2)
	case len(c.v1) > 0:
		return nil // reported by the check of the controllers
	}
	return repaired(fail("cgroups", "mount -t cgroup2 none /sys/fs/cgroup",
		"no cgroups are mounted: containers cannot be limited or tracked"))
}

// blindRuntime is what a host with a cgroup v1 controller that is not mounted costs.
const blindRuntime = "the runtime cannot read the metrics of containers nor tell which of them were killed for " +
	"memory, and resizes may fail"

func controllers(h *Host, _ *Settings) (list []Finding) {
	mounted := h.cgroupMounts()
	v1, v2 := mounted.v1, mounted.v2
	if len(v1) == 0 && v2 == "" {
		return nil
	}
	for _, r := range mounted.readOnly { // reported by the check of the hierarchies
		v1 = append(v1, r.controllers...)
	}
	unmounted := h.unmounted(v1)
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
	mounted := h.cgroupMounts()
	systemd := h.exists("run/systemd/system")
	switch {
	case used == "systemd" && !systemd:
		return fail("cgroup-driver", h.driverFix(&s.Runtime, "cgroupfs"),
			"the runtime uses the systemd cgroup driver, but systemd is not running")
	case used == "cgroupfs" && systemd && mounted.v2 != "" && !slices.Contains(mounted.v1, "memory"):
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

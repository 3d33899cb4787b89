package preflight

import (
	"slices"
	"strings"
)

// hierarchy has the cgroup v1 controllers that can only be mounted together, in the kernel's
// order; most have one.
type hierarchy struct {
	number      string
	controllers []string
}

// unmounted returns the cgroup v1 hierarchies of the host that are not mounted. A line of
// proc/cgroups is "hugetlb 11 1 1": name, hierarchy, number of cgroups, enabled; the hierarchy
// is 0 in cgroup v2 and for an unused controller.
func (h *Host) unmounted(mounted []string) (list []hierarchy) {
	for line := range strings.Lines(h.text("proc/cgroups")) {
		f := strings.Fields(line)
		if len(f) != 4 || strings.HasPrefix(f[0], "#") || f[1] == "0" || f[3] != "1" || slices.Contains(mounted, f[0]) {
			continue
		}
		i := slices.IndexFunc(list, func(u hierarchy) bool { return u.number == f[1] })
		if i < 0 {
			i, list = len(list), append(list, hierarchy{number: f[1]})
		}
		list[i].controllers = append(list[i].controllers, f[0])
	}
	return list
}

// String returns the controllers as systemd names the directory of a hierarchy: cpu,cpuacct.
func (u hierarchy) String() string { return strings.Join(u.controllers, ",") }

// mount returns the command that mounts the hierarchy where systemd would: in a directory named
// for all of its controllers, with a link for each if there are several. A directory in the place
// of a link is removed if it is empty, as one for a mount of that controller alone, which fails.
func (u hierarchy) mount() string {
	const root = "/sys/fs/cgroup/"
	command := "mkdir -p " + root + u.String() + " && mount -t cgroup -o " + u.String() + " cgroup " + root + u.String()
	if len(u.controllers) == 1 {
		return command
	}
	var links string
	for _, name := range u.controllers {
		links += " ln -sfT " + u.String() + " " + root + name + ";"
	}
	return command + " && { rmdir " + root + strings.Join(u.controllers, " "+root) + " 2>/dev/null;" + links + " }"
}

// mountAll returns the command that mounts hierarchies, each of them even if another fails.
func mountAll(list []hierarchy) string {
	var commands []string
	for _, u := range list {
		commands = append(commands, u.mount())
	}
	return strings.Join(commands, "; ")
}

// notMounted reports that a controller of the hierarchy is not mounted.
func (u hierarchy) notMounted(controller string) string {
	text := "the cgroup v1 controller " + controller
	if others := slices.DeleteFunc(slices.Clone(u.controllers),
		func(name string) bool { return name == controller }); len(others) > 0 {
		text += " (in one hierarchy with " + strings.Join(others, ", ") + ")"
	}
	return text + " is active but not mounted"
}

package preflight

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// overlay checks for overlayfs, the file system of containers.
func overlay(h *Host, _ *Settings) []Finding {
	for _, l := range strings.Split(h.text("proc/filesystems"), "\n") {
		if fields := strings.Fields(l); len(fields) > 0 && fields[len(fields)-1] == "overlay" {
			return ok("overlay", "the kernel supports overlayfs")
		}
	}
	modules := filepath.Join("lib/modules", h.text("proc/sys/kernel/osrelease"))
	for _, list := range []string{"modules.dep", "modules.builtin"} {
		if strings.Contains(h.text(filepath.Join(modules, list)), "/overlay.ko") {
			return ok("overlay", "the kernel supports overlayfs as a module")
		}
	}
	return repaired(fail("overlay", "modprobe overlay && echo overlay >/etc/modules-load.d/overlay.conf",
		"the kernel does not support overlayfs: the file systems of containers cannot be created"))
}

// kernelDefaults are the kernel parameters that the kubelet sets at its start, or requires
// with protectKernelDefaults. podstead changes none of them.
var kernelDefaults = []struct {
	name string
	// want is the required value, or the minimum if minimum is set.
	want    int64
	minimum bool
	effect  string
}{
	{"vm.overcommit_memory", 1, false, "memory allocations can fail although memory is free"},
	{"vm.panic_on_oom", 0, false, "a single out-of-memory condition panics the host"},
	{"kernel.panic", 10, false, "the host does not reboot after a kernel panic"},
	{"kernel.panic_on_oops", 1, false, "the kernel continues in an undefined state after an oops"},
	{"kernel.keys.root_maxkeys", 1_000_000, true, "many containers use up root's keys"},
	{"kernel.keys.root_maxbytes", 25_000_000, true, "many containers use up root's keys"},
}

const sysctlFile = "/etc/sysctl.d/90-podstead.conf"

func kernelSettings(h *Host, _ *Settings) []Finding {
	var texts, lines []string
	for _, d := range kernelDefaults {
		value, known := h.number(filepath.Join("proc/sys", strings.ReplaceAll(d.name, ".", "/")))
		if !known || value == d.want || d.minimum && value > d.want || d.name == "kernel.panic" && value > 0 {
			continue
		}
		texts = append(texts, fmt.Sprintf("%s is %d, not %d: %s", d.name, value, d.want, d.effect))
		lines = append(lines, fmt.Sprintf("%s=%d", d.name, d.want))
	}
	if len(texts) == 0 {
		return ok("kernel-settings", "kernel parameters have the values that the kubelet would set")
	}
	return warn("kernel-settings",
		fmt.Sprintf("printf '%%s\\n' %s >>%s && sysctl --system", strings.Join(lines, " "), sysctlFile),
		"kernel parameters differ from those that a kubelet would set, and podstead does not change them: %s",
		strings.Join(texts, "; "))
}

// setting returns the command that sets a kernel parameter permanently.
func setting(name, value string) string {
	return fmt.Sprintf("echo %s=%s >>%s && sysctl --system", name, value, sysctlFile)
}

// inotify checks the inotify limits: below the kernel's own defaults, programs that watch
// files fail with "too many open files".
func inotify(h *Host, _ *Settings) (list []Finding) {
	for name, minimum := range map[string]int64{"max_user_instances": 128, "max_user_watches": 8192} {
		if value, known := h.number("proc/sys/fs/inotify/" + name); known && value < minimum {
			list = append(list,
				repaired(warn("inotify", setting("fs.inotify."+name, fmt.Sprint(minimum)),
					"fs.inotify.%s is %d, less than %d: changes of manifests may be detected late", name, value, minimum))...)
		}
	}
	slices.SortFunc(list, func(a, b Finding) int { return strings.Compare(a.Message, b.Message) })
	return list
}

// swap checks that swap is off, or that the kernel can keep pods from using it.
func swap(h *Host, _ *Settings) []Finding {
	lines := strings.Split(h.text("proc/swaps"), "\n")
	if len(lines) < 2 {
		return ok("swap", "swap is off")
	}
	v1 := h.exists("sys/fs/cgroup/memory/memory.memsw.limit_in_bytes")
	v2, _ := filepath.Glob(h.path("sys/fs/cgroup/*/memory.swap.max"))
	if v1 || len(v2) > 0 {
		return ok("swap", "swap is on, and the kernel can keep pods with a memory limit from using it")
	}
	return warn("swap", "swapoff -a  (and remove it from /etc/fstab; or boot with swapaccount=1)",
		"swap is on, and this kernel cannot keep pods from using it: a pod at its memory limit slows down the host instead "+
			"of being OOM-killed")
}

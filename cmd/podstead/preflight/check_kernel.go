package preflight

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// overlay is the file system of containers' images.
func overlay(h *Host, _ *Settings) []Finding {
	for _, l := range strings.Split(h.line("proc/filesystems"), "\n") {
		if fields := strings.Fields(l); len(fields) > 0 && fields[len(fields)-1] == "overlay" {
			return ok("overlay", "the kernel has overlayfs")
		}
	}
	modules := filepath.Join("lib/modules", h.line("proc/sys/kernel/osrelease"))
	for _, list := range []string{"modules.dep", "modules.builtin"} {
		if strings.Contains(h.line(filepath.Join(modules, list)), "/overlay.ko") {
			return ok("overlay", "the kernel has overlayfs as a module")
		}
	}
	return fail("overlay", "modprobe overlay && echo overlay >/etc/modules-load.d/overlay.conf",
		"the kernel has no overlayfs, on which containers' file systems are made")
}

// kernelDefaults are what the kubelet sets at its start, or insists on with
// protectKernelDefaults; podstead changes nothing.
var kernelDefaults = []struct {
	name string
	// want is exact, or the least if least is set.
	want  int64
	least bool
	why   string
}{
	{"vm.overcommit_memory", 1, false, "programs can be refused memory that is there"},
	{"vm.panic_on_oom", 0, false, "one pod without memory ends the whole machine"},
	{"kernel.panic", 10, false, "a kernel that panicked stays so, and nobody restarts the machine"},
	{"kernel.panic_on_oops", 1, false, "a kernel with a fault goes on half alive"},
	{"kernel.keys.root_maxkeys", 1_000_000, true, "many containers use up root's keys"},
	{"kernel.keys.root_maxbytes", 25_000_000, true, "many containers use up root's keys"},
}

const sysctlFile = "/etc/sysctl.d/90-podstead.conf"

func kernelSettings(h *Host, _ *Settings) []Finding {
	var texts, lines []string
	for _, d := range kernelDefaults {
		has, known := h.number(filepath.Join("proc/sys", strings.ReplaceAll(d.name, ".", "/")))
		if !known || has == d.want || d.least && has > d.want || d.name == "kernel.panic" && has > 0 {
			continue
		}
		texts = append(texts, fmt.Sprintf("%s is %d, not %d: %s", d.name, has, d.want, d.why))
		lines = append(lines, fmt.Sprintf("%s=%d", d.name, d.want))
	}
	if len(texts) == 0 {
		return ok("kernel-settings", "they are as the kubelet would set them")
	}
	return warn("kernel-settings", fmt.Sprintf("printf '%%s\\n' %s >>%s && sysctl --system", strings.Join(lines, " "), sysctlFile),
		"podstead changes none of the kernel's settings, as a kubelet would: %s", strings.Join(texts, "; "))
}

func setting(name, value string) string {
	return fmt.Sprintf("echo %s=%s >>%s && sysctl --system", name, value, sysctlFile)
}

// inotify: with less than the kernel's own defaults, programs that watch files
// fail with "too many open files".
func inotify(h *Host, _ *Settings) (list []Finding) {
	for name, least := range map[string]int64{"max_user_instances": 128, "max_user_watches": 8192} {
		if has, known := h.number("proc/sys/fs/inotify/" + name); known && has < least {
			list = append(list, warn("inotify", setting("fs.inotify."+name, fmt.Sprint(least)), "fs.inotify.%s is %d, less than %d: changed manifests may be seen late", name, has, least)...)
		}
	}
	slices.SortFunc(list, func(a, b Finding) int { return strings.Compare(a.Message, b.Message) })
	return list
}

// swap is no trouble where the kernel can keep pods from it.
func swap(h *Host, _ *Settings) []Finding {
	lines := strings.Split(h.line("proc/swaps"), "\n")
	if len(lines) < 2 {
		return ok("swap", "it is off")
	}
	v1 := h.exists("sys/fs/cgroup/memory/memory.memsw.limit_in_bytes")
	v2, _ := filepath.Glob(h.path("sys/fs/cgroup/*/memory.swap.max"))
	if v1 || len(v2) > 0 {
		return ok("swap", "it is on, and the kernel keeps pods with a limit from it")
	}
	return warn("swap", "swapoff -a  (and take it out of /etc/fstab; or boot with swapaccount=1)",
		"it is on, and this kernel cannot keep pods from it: a pod at its memory limit slows down the machine instead of ending")
}

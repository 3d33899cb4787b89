package nodestatus

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Host describes the host. Unknown fields are empty.
type Host struct {
	OS, Kernel                    string
	MachineID, SystemUUID, BootID string
	// Swap is in bytes.
	Swap int64
}

// ReadHost reads the files below root, "/" for this host.
func ReadHost(root string) Host {
	line := func(path string) string {
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(text))
	}
	h := Host{
		OS: "Linux", Kernel: line("proc/sys/kernel/osrelease"),
		MachineID: line("etc/machine-id"), BootID: line("proc/sys/kernel/random/boot_id"),
		SystemUUID: line("sys/class/dmi/id/product_uuid"),
	}
	for _, l := range strings.Split(line("proc/meminfo"), "\n") {
		if of, ok := strings.CutPrefix(l, "SwapTotal:"); ok {
			kib, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(of), " kB"), 10, 64)
			h.Swap = kib << 10
		}
	}
	for _, path := range []string{"etc/os-release", "usr/lib/os-release"} {
		for _, l := range strings.Split(line(path), "\n") {
			if name, ok := strings.CutPrefix(l, "PRETTY_NAME="); ok {
				h.OS = strings.Trim(name, `"'`)
				return h
			}
		}
	}
	return h
}

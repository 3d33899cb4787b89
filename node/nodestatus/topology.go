package nodestatus

import (
	"os"
	"path/filepath"
	"strings"
)

// Topology returns the number of physical CPU cores and of sockets of the host at root. Both
// are 0 if the kernel does not report them.
func Topology(root string) (cores, sockets int) {
	directories, err := filepath.Glob(filepath.Join(root, "sys/devices/system/cpu/cpu[0-9]*/topology"))
	if err != nil {
		return 0, 0
	}
	type core struct{ socket, die, id string }
	seenCores, seenSockets := map[core]bool{}, map[string]bool{}
	for _, dir := range directories {
		read := func(file string) string {
			data, err := os.ReadFile(filepath.Join(dir, file))
			if err != nil {
				return ""
			}
			return strings.TrimSpace(string(data))
		}
		socket, id := read("physical_package_id"), read("core_id")
		if socket == "" || id == "" {
			continue // the CPU is offline
		}
		seenCores[core{socket, read("die_id"), id}], seenSockets[socket] = true, true
	}
	return len(seenCores), len(seenSockets)
}

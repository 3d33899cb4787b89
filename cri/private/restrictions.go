package private

import (
	"os"
	"strings"

	"github.com/podstead/podstead/internal/boundedfile"
)

// restrictions returns the restrictions of a process, as /proc/PID/status shows them, that its
// children inherit and cannot give up: those that an option of systemd sets for a service. Of
// what systemd's process 1 has itself, a whole machine in a container for example, none is
// reported. It returns nil if the files cannot be read.
func restrictions(process, init string) (found []string) {
	own, first := statusOf(process), statusOf(init)
	if own == nil || first == nil {
		return nil
	}
	for _, option := range [][2]string{{"NoNewPrivs", "NoNewPrivileges"}, {"Seccomp_filters", "system call filters"},
		{"CapBnd", "CapabilityBoundingSet"}} {
		if own[option[0]] != first[option[0]] {
			found = append(found, option[1])
		}
	}
	return found
}

func statusOf(file string) map[string]string {
	const limit = 64 << 10 // many times what a process has
	data, err := boundedfile.Read(file, limit)
	if err != nil {
		return nil
	}
	lines := map[string]string{}
	for line := range strings.Lines(string(data)) {
		key, value, _ := strings.Cut(line, ":")
		lines[key] = strings.TrimSpace(value)
	}
	return lines
}

// warnOfRestrictions logs that the containers of a private containerd will inherit restrictions
// of this service. The pods run, but setuid programs and others fail in them.
func (c *Containerd) warnOfRestrictions() {
	if found := restrictions("/proc/self/status", "/proc/1/status"); len(found) > 0 && os.Getppid() == 1 {
		c.log.Warn("Private containerd inherits the restrictions of podstead's service, and so do all containers; remove "+
			"them from the unit, or install a container runtime as a service of its own", "restrictions",
			strings.Join(found, ", "))
	}
}

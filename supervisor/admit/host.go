package admit

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// Host is what the checks need to know of the host.
type Host struct {
	// Kernel is the release, such as 6.12.41-amd64; empty if unknown.
	Kernel string
	// AppArmor and SELinux are true if they are enabled.
	AppArmor, SELinux bool
}

// FindHost reads the facts of the host from its /proc and /sys.
func FindHost(proc, sys string) Host {
	release, _ := os.ReadFile(filepath.Join(proc, "sys/kernel/osrelease"))
	enabled, _ := os.ReadFile(filepath.Join(sys, "module/apparmor/parameters/enabled"))
	_, err := os.Stat(filepath.Join(sys, "fs/selinux/enforce"))
	return Host{
		Kernel:   strings.TrimSpace(string(release)),
		AppArmor: strings.HasPrefix(string(enabled), "Y"),
		SELinux:  err == nil,
	}
}

// WellKnownLabels returns the labels that every node has.
func WellKnownLabels(node string) map[string]string {
	return map[string]string{
		v1.LabelHostname:          node,
		v1.LabelOSStable:          runtime.GOOS,
		v1.LabelArchStable:        runtime.GOARCH,
		"beta.kubernetes.io/os":   runtime.GOOS,
		"beta.kubernetes.io/arch": runtime.GOARCH,
	}
}

package admit

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
)

// safeSysctls are the kernel parameters that a pod may set without affecting other
// pods, each with the kernel version since which it is per network namespace (as in
// kubelet 1.36).
var safeSysctls = map[string]string{
	"kernel.shm_rmid_forced":              "",
	"net.ipv4.ip_local_port_range":        "",
	"net.ipv4.tcp_syncookies":             "",
	"net.ipv4.ping_group_range":           "",
	"net.ipv4.ip_unprivileged_port_start": "",
	"net.ipv4.ip_local_reserved_ports":    "3.16",
	"net.ipv4.tcp_keepalive_time":         "4.5",
	"net.ipv4.tcp_keepalive_intvl":        "4.5",
	"net.ipv4.tcp_keepalive_probes":       "4.5",
	"net.ipv4.tcp_fin_timeout":            "4.6",
	"net.ipv4.tcp_rmem":                   "4.15",
	"net.ipv4.tcp_wmem":                   "4.15",
}

// checkSysctls checks the kernel parameters. A parameter that would change the host,
// together with hostNetwork or hostIPC, does not pass the validation of the manifest.
func checkSysctls(pod *v1.Pod, n *Node) *Cause {
	if pod.Spec.SecurityContext == nil {
		return nil
	}
	for i, s := range pod.Spec.SecurityContext.Sysctls {
		name := normalizeSysctl(s.Name)
		since, safe := safeSysctls[name]
		if safe && kernelSince(n.Kernel, since) || sysctlAllowed(name, n.UnsafeSysctls) {
			continue
		}
		at := fmt.Sprintf("spec.securityContext.sysctls[%d]: %s", i, s.Name)
		switch {
		case safe:
			return &Cause{ReasonSysctl, fmt.Sprintf("%s is not namespaced before Linux %s, and this kernel is %s; remove it", at,
				since, n.Kernel)}
		case namespacedSysctl(name):
			return &Cause{ReasonSysctl, fmt.Sprintf("%s is not among the safe kernel parameters; start podstead with "+
				"--allowed-unsafe-sysctls=%s, or remove it", at, name)}
		}
		return &Cause{ReasonSysctl, fmt.Sprintf("%s is not namespaced, and no pod may change it; set it on the host with "+
			"sysctl(8), and remove it here", at)}
	}
	return nil
}

// namespacedSysctl reports whether each pod has a kernel parameter of its own.
func namespacedSysctl(name string) bool {
	for _, prefix := range []string{"net.", "fs.mqueue.", "kernel.shm", "kernel.msg"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return name == "kernel.sem"
}

func sysctlAllowed(name string, patterns []string) bool {
	for _, p := range patterns {
		prefix, wide := strings.CutSuffix(p, "*")
		if name == p || wide && strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// normalizeSysctl converts net/ipv4/tcp_syncookies to the form with dots between the
// parts of the name.
func normalizeSysctl(name string) string {
	if i := strings.IndexAny(name, "./"); i >= 0 && name[i] == '/' {
		return strings.NewReplacer("/", ".", ".", "/").Replace(name)
	}
	return name
}

// kernelSince reports whether a kernel release is at least a version. An unknown
// release is older than every version.
func kernelSince(release, since string) bool {
	if since == "" {
		return true
	}
	v, err := version.ParseGeneric(release)
	return err == nil && v.AtLeast(version.MustParseGeneric(since))
}

package admit

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
)

// safeSysctls are the kernel parameters that a pod may set without harm to
// others, with the kernel since which each is a network namespace's own
// (kubelet 1.36).
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

// sysctls judges the kernel parameters. One that would change the host, beside
// hostNetwork or hostIPC, does not get past the manifest's validation.
func sysctls(pod *v1.Pod, n *Node) *Refusal {
	if pod.Spec.SecurityContext == nil {
		return nil
	}
	for i, s := range pod.Spec.SecurityContext.Sysctls {
		name := dotted(s.Name)
		since, safe := safeSysctls[name]
		if safe && kernelSince(n.Kernel, since) || allowed(name, n.UnsafeSysctls) {
			continue
		}
		at := fmt.Sprintf("spec.securityContext.sysctls[%d]: %s", i, s.Name)
		switch {
		case safe:
			return &Refusal{ReasonSysctl, fmt.Sprintf("%s is the host's before Linux %s, and this is %s; take it out", at, since, n.Kernel)}
		case ofPod(name):
			return &Refusal{ReasonSysctl, fmt.Sprintf("%s is not among the safe kernel parameters; start podstead with --allowed-unsafe-sysctls=%s, or take it out", at, name)}
		}
		return &Refusal{ReasonSysctl, fmt.Sprintf("%s is the host's, and no pod may change it; set it on the host with sysctl(8), and take it out here", at)}
	}
	return nil
}

// ofPod tells a kernel parameter of which each pod has its own.
func ofPod(name string) bool {
	for _, prefix := range []string{"net.", "fs.mqueue.", "kernel.shm", "kernel.msg"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return name == "kernel.sem"
}

func allowed(name string, patterns []string) bool {
	for _, p := range patterns {
		prefix, wide := strings.CutSuffix(p, "*")
		if name == p || wide && strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// dotted brings net/ipv4/tcp_syncookies to the form with dots between the
// parts of the name.
func dotted(name string) string {
	if i := strings.IndexAny(name, "./"); i >= 0 && name[i] == '/' {
		return strings.NewReplacer("/", ".", ".", "/").Replace(name)
	}
	return name
}

// kernelSince reports whether a kernel is not before a version. An unknown
// kernel is before all.
func kernelSince(release, since string) bool {
	if since == "" {
		return true
	}
	v, err := version.ParseGeneric(release)
	return err == nil && v.AtLeast(version.MustParseGeneric(since))
}

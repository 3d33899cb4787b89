package cri

import (
	"path/filepath"
	"slices"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// maskedPaths are those that the default procMount hides from containers, and
// readonlyPaths those that it lets them only read. Both are the kubelet's.
var (
	maskedPaths = []string{
		"/proc/asound", "/proc/acpi", "/proc/interrupts", "/proc/kcore", "/proc/keys",
		"/proc/latency_stats", "/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug",
		"/proc/scsi", "/sys/firmware", "/sys/devices/virtual/powercap",
	}
	readonlyPaths = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
)

// hostMaskedPaths adds what differs from host to host: the thermal throttle
// counters of each CPU, by which neighbours can be watched.
func hostMaskedPaths(sysfs string) []string {
	counters, err := filepath.Glob(filepath.Join(sysfs, "devices/system/cpu/cpu[0-9]*/thermal_throttle"))
	if err != nil {
		return maskedPaths
	}
	return append(slices.Clone(maskedPaths), counters...)
}

// namespaces are the pod's: network and IPC shared within it, and a PID
// namespace for each container unless it asks for one of the pod or the host's.
func namespaces(pod *v1.Pod) *runtimeapi.NamespaceOption {
	o := &runtimeapi.NamespaceOption{
		Network: runtimeapi.NamespaceMode_POD,
		Ipc:     runtimeapi.NamespaceMode_POD,
		Pid:     runtimeapi.NamespaceMode_CONTAINER,
	}
	if pod.Spec.HostNetwork {
		o.Network = runtimeapi.NamespaceMode_NODE
	}
	if pod.Spec.HostIPC {
		o.Ipc = runtimeapi.NamespaceMode_NODE
	}
	switch share := pod.Spec.ShareProcessNamespace; {
	case pod.Spec.HostPID:
		o.Pid = runtimeapi.NamespaceMode_NODE
	case share != nil && *share:
		o.Pid = runtimeapi.NamespaceMode_POD
	}
	return o
}

// containerSecurity is the security context of a container that asks for
// nothing: the runtime's capabilities, no seccomp profile (seccompDefault is
// false), the default procMount.
func (g config) containerSecurity(pod *v1.Pod) *runtimeapi.LinuxContainerSecurityContext {
	return &runtimeapi.LinuxContainerSecurityContext{
		NamespaceOptions: namespaces(pod),
		Seccomp:          &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Unconfined},
		MaskedPaths:      g.masked,
		ReadonlyPaths:    readonlyPaths,
	}
}

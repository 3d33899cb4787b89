package cri

import (
	"path/filepath"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// Security is what the node adds to the security contexts of pods.
type Security struct {
	// SeccompRoot is the directory of Localhost profiles; if empty, pods have
	// none.
	SeccompRoot string
	// SeccompDefault gives containers that name no profile the runtime's default.
	// Unless it is set they are unconfined, as with the kubelet.
	SeccompDefault bool
}

// UserNamespace is the range of the host's user and group IDs that a pod with
// hostUsers: false sees as 0 to Length-1.
type UserNamespace struct{ HostID, Length uint32 }

// mapping returns the range in CRI's form.
func (u *UserNamespace) mapping() []*runtimeapi.IDMapping {
	if u == nil {
		return nil
	}
	return []*runtimeapi.IDMapping{{HostId: u.HostID, ContainerId: 0, Length: u.Length}}
}

// idMapped makes a pod with a user namespace see the owners of mounted files as
// the host has them: root's files there are root's here.
func idMapped(mounts []*runtimeapi.Mount, users *UserNamespace) []*runtimeapi.Mount {
	for _, m := range mounts {
		if m.Image != nil {
			continue // The runtime mounts those itself.
		}
		m.UidMappings, m.GidMappings = users.mapping(), users.mapping()
	}
	return mounts
}

// maskedPaths are those that the default procMount hides from containers, and
// readonlyPaths those that it lets them only read. Both are the kubelet's.
var (
	// maskedPaths are hidden from containers by the default procMount, and
	// readonlyPaths are read-only. Both are the kubelet's.
	maskedPaths = []string{
		"/proc/asound", "/proc/acpi", "/proc/interrupts", "/proc/kcore", "/proc/keys",
		"/proc/latency_stats", "/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug",
		"/proc/scsi", "/sys/firmware", "/sys/devices/virtual/powercap",
	}
	readonlyPaths = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
)

// hostMaskedPaths adds what differs from host to host: the thermal throttle
// counters of each CPU, which reveal the activity of neighbours.
func hostMaskedPaths(sysfs string) []string {
	counters, err := filepath.Glob(filepath.Join(sysfs, "devices/system/cpu/cpu[0-9]*/thermal_throttle"))
	if err != nil {
		return maskedPaths
	}
	return append(slices.Clone(maskedPaths), counters...)
}

// namespaces returns the pod's: network and IPC are shared within it, and each
// container has a PID namespace unless the pod requests a shared one or the
// host's. users is nil for a pod with the host's users.
func namespaces(pod *v1.Pod, users *UserNamespace) *runtimeapi.NamespaceOption {
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
	if users != nil {
		o.UsernsOptions = &runtimeapi.UserNamespace{Mode: runtimeapi.NamespaceMode_POD, Uids: users.mapping(),
			Gids: users.mapping()}
	}
	return o
}

// sandboxSecurity returns the security context of a sandbox. Its own seccomp
// profile is the runtime's default whatever the containers have, as with the
// kubelet.
func sandboxSecurity(pod *v1.Pod, users *UserNamespace) *runtimeapi.LinuxSandboxSecurityContext {
	sc := podSecurity(pod)
	out := &runtimeapi.LinuxSandboxSecurityContext{
		NamespaceOptions:         namespaces(pod, users),
		Privileged:               anyPrivileged(pod),
		Seccomp:                  &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault},
		SelinuxOptions:           seLinux(sc.SELinuxOptions),
		RunAsUser:                number(sc.RunAsUser),
		SupplementalGroups:       supplementalGroups(pod),
		SupplementalGroupsPolicy: groupsPolicy(pod),
	}
	// A runtime accepts no group without a user. The kubelet passes it
	// nevertheless, and its sandbox does not start.
	if sc.RunAsUser != nil {
		out.RunAsGroup = number(sc.RunAsGroup)
	}
	return out
}

// sysctls returns the kernel parameters of a pod by their names with dots.
// Slashes between the parts of a name become dots, and dots within them slashes,
// as in sysctl(8).
func sysctls(pod *v1.Pod) map[string]string {
	list := podSecurity(pod).Sysctls
	if len(list) == 0 {
		return nil
	}
	out := make(map[string]string, len(list))
	for _, s := range list {
		name := s.Name
		if i := strings.IndexAny(name, "./"); i >= 0 && name[i] == '/' {
			name = strings.NewReplacer("/", ".", ".", "/").Replace(name)
		}
		out[name] = s.Value
	}
	return out
}

// containerSecurity returns the security context of a container that runs as
// user. The container's settings come before the pod's, where the pod may have
// them; the rest is left to the runtime.
func (g config) containerSecurity(pod *v1.Pod, c *v1.Container,
	in containerInput) *runtimeapi.LinuxContainerSecurityContext {
	sc := containerContext(c)
	out := &runtimeapi.LinuxContainerSecurityContext{
		NamespaceOptions:         namespaces(pod, in.users),
		Privileged:               isTrue(sc.Privileged),
		Capabilities:             capabilities(sc.Capabilities),
		NoNewPrivs:               sc.AllowPrivilegeEscalation != nil && !*sc.AllowPrivilegeEscalation,
		ReadonlyRootfs:           isTrue(sc.ReadOnlyRootFilesystem),
		RunAsUser:                number(in.user.id),
		RunAsUsername:            in.user.name,
		RunAsGroup:               number(in.user.group),
		SupplementalGroups:       append(supplementalGroups(pod), in.Groups...),
		SupplementalGroupsPolicy: groupsPolicy(pod),
		SelinuxOptions:           seLinux(first(sc.SELinuxOptions, podSecurity(pod).SELinuxOptions)),
		Seccomp:                  g.seccomp(seccompProfile(pod, c)),
		Apparmor:                 appArmor(first(sc.AppArmorProfile, podSecurity(pod).AppArmorProfile)),
	}
	if in.target != "" {
		// With shared processes it sees them all anyway; the kubelet requests
		// this nevertheless.
		out.NamespaceOptions.Pid, out.NamespaceOptions.TargetId = runtimeapi.NamespaceMode_TARGET, in.target
	}
	if sc.ProcMount == nil || *sc.ProcMount != v1.UnmaskedProcMount {
		out.MaskedPaths, out.ReadonlyPaths = g.masked, readonlyPaths
	}
	return out
}

// seccompProfile returns the profile that a container requests, nil for none.
func seccompProfile(pod *v1.Pod, c *v1.Container) *v1.SeccompProfile {
	return first(containerContext(c).SeccompProfile, podSecurity(pod).SeccompProfile)
}

func (g config) seccomp(p *v1.SeccompProfile) *runtimeapi.SecurityProfile {
	switch {
	case p == nil && g.security.SeccompDefault, p != nil && p.Type == v1.SeccompProfileTypeRuntimeDefault:
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault}
	case p != nil && p.Type == v1.SeccompProfileTypeLocalhost:
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Localhost, LocalhostRef: g.seccompFile(p)}
	}
	return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Unconfined}
}

// seccompFile returns the file of a Localhost profile.
func (g config) seccompFile(p *v1.SeccompProfile) string {
	if p.LocalhostProfile == nil {
		return g.security.SeccompRoot
	}
	return filepath.Join(g.security.SeccompRoot, *p.LocalhostProfile)
}

// appArmor returns nil if nothing is requested: then the runtime's default
// applies if the host has AppArmor.
func appArmor(p *v1.AppArmorProfile) *runtimeapi.SecurityProfile {
	if p == nil {
		return nil
	}
	out := &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault}
	switch p.Type {
	case v1.AppArmorProfileTypeUnconfined:
		out.ProfileType = runtimeapi.SecurityProfile_Unconfined
	case v1.AppArmorProfileTypeLocalhost:
		out.ProfileType = runtimeapi.SecurityProfile_Localhost
		if p.LocalhostProfile != nil {
			out.LocalhostRef = *p.LocalhostProfile
		}
	}
	return out
}

func seLinux(o *v1.SELinuxOptions) *runtimeapi.SELinuxOption {
	if o == nil {
		return nil
	}
	return &runtimeapi.SELinuxOption{User: o.User, Role: o.Role, Type: o.Type, Level: o.Level}
}

// capabilities returns the names without the prefix, which the runtimes add.
func capabilities(c *v1.Capabilities) *runtimeapi.Capability {
	if c == nil {
		return nil
	}
	plain := func(list []v1.Capability) []string {
		var names []string
		for _, name := range list {
			names = append(names, strings.TrimPrefix(strings.ToUpper(string(name)), "CAP_"))
		}
		return names
	}
	return &runtimeapi.Capability{AddCapabilities: plain(c.Add), DropCapabilities: plain(c.Drop)}
}

// supplementalGroups returns the pod's groups, and the one that owns its volumes.
func supplementalGroups(pod *v1.Pod) []int64 {
	sc := podSecurity(pod)
	groups := slices.Clone(sc.SupplementalGroups)
	if sc.FSGroup != nil {
		groups = append(groups, *sc.FSGroup)
	}
	return groups
}

func groupsPolicy(pod *v1.Pod) runtimeapi.SupplementalGroupsPolicy {
	if p := podSecurity(pod).SupplementalGroupsPolicy; p != nil && *p == v1.SupplementalGroupsPolicyStrict {
		return runtimeapi.SupplementalGroupsPolicy_Strict
	}
	return runtimeapi.SupplementalGroupsPolicy_Merge
}

// anyPrivileged reports whether a container is privileged: a runtime creates no
// such container in an unprivileged sandbox.
func anyPrivileged(pod *v1.Pod) bool {
	for c := range podinfo.EachContainer(&pod.Spec, podinfo.SpecContainers) {
		if isTrue(containerContext(c).Privileged) {
			return true
		}
	}
	return false
}

// podSecurity returns the pod's security context, an empty one if it has none.
func podSecurity(pod *v1.Pod) *v1.PodSecurityContext {
	if sc := pod.Spec.SecurityContext; sc != nil {
		return sc
	}
	return &v1.PodSecurityContext{}
}

// containerContext returns the container's security context, an empty one if it
// has none.
func containerContext(c *v1.Container) *v1.SecurityContext {
	if sc := c.SecurityContext; sc != nil {
		return sc
	}
	return &v1.SecurityContext{}
}

// first returns the container's setting, else the pod's.
func first[T any](own, pods *T) *T {
	if own != nil {
		return own
	}
	return pods
}

func isTrue(b *bool) bool { return b != nil && *b }

func number(n *int64) *runtimeapi.Int64Value {
	if n == nil {
		return nil
	}
	return &runtimeapi.Int64Value{Value: *n}
}

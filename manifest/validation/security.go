package validation

import (
	"fmt"
	"regexp"
	"strings"

	v1 "k8s.io/api/core/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	// sysctlNameMax is the API's limit on the name of a kernel parameter.
	sysctlNameMax = 253
	// appArmorNameMax is PATH_MAX without the terminating NUL byte.
	appArmorNameMax = 4095
)

var sysctlName = regexp.MustCompile(`^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$`)

// podSecurity validates spec.securityContext and the settings that share
// namespaces with the host.
func (v *validator) podSecurity(spec *field.Path) {
	if v.spec.HostPID && v.spec.ShareProcessNamespace != nil && *v.spec.ShareProcessNamespace {
		v.invalid(spec.Child("shareProcessNamespace"), true,
			"must not be true together with hostPID: true, which shares the processes of the host")
	}
	v.userNamespace(spec)
	v.annotatedProfiles(spec)
	sc, path := v.spec.SecurityContext, spec.Child("securityContext")
	if sc == nil {
		return
	}
	v.userID(path.Child("runAsUser"), sc.RunAsUser)
	v.groupID(path.Child("runAsGroup"), sc.RunAsGroup)
	v.groupID(path.Child("fsGroup"), sc.FSGroup)
	for i := range sc.SupplementalGroups {
		v.groupID(path.Child("supplementalGroups").Index(i), &sc.SupplementalGroups[i])
	}
	optionalOneOf(v, path.Child("supplementalGroupsPolicy"), sc.SupplementalGroupsPolicy,
		v1.SupplementalGroupsPolicyMerge, v1.SupplementalGroupsPolicyStrict)
	optionalOneOf(v, path.Child("fsGroupChangePolicy"), sc.FSGroupChangePolicy,
		v1.FSGroupChangeOnRootMismatch, v1.FSGroupChangeAlways)
	// MountOption is behind a feature gate that is off by default in v1.36.
	optionalOneOf(v, path.Child("seLinuxChangePolicy"), sc.SELinuxChangePolicy, v1.SELinuxChangePolicyRecursive)
	v.sysctls(path.Child("sysctls"), sc.Sysctls)
	v.seccomp(path.Child("seccompProfile"), sc.SeccompProfile)
	v.appArmor(path.Child("appArmorProfile"), sc.AppArmorProfile)
	v.windowsOptions(path.Child("windowsOptions"), sc.WindowsOptions)
}

// userNamespace validates what a pod with hostUsers: false may share.
func (v *validator) userNamespace(spec *field.Path) {
	const detail = "cannot be set together with hostUsers: false; remove one of them"
	if v.hostUsers {
		return
	}
	if v.spec.HostNetwork {
		v.forbidden(spec.Child("hostNetwork"), detail)
	}
	if v.spec.HostPID {
		v.forbidden(spec.Child("hostPID"), detail)
	}
	if v.spec.HostIPC {
		v.forbidden(spec.Child("hostIPC"), detail)
	}
	v.eachContainer(spec, func(path *field.Path, c *v1.Container) {
		if len(c.VolumeDevices) > 0 {
			v.forbidden(path.Child("volumeDevices"), detail)
		}
	})
}

func (v *validator) containerSecurity(path *field.Path, sc *v1.SecurityContext) {
	if sc == nil {
		return
	}
	v.userID(path.Child("runAsUser"), sc.RunAsUser)
	v.groupID(path.Child("runAsGroup"), sc.RunAsGroup)
	if mount := sc.ProcMount; mount != nil {
		oneOf(v, path.Child("procMount"), *mount, v1.DefaultProcMount, v1.UnmaskedProcMount)
		if v.hostUsers && *mount == v1.UnmaskedProcMount {
			v.invalid(path.Child("procMount"), *mount, "Unmasked needs spec.hostUsers: false")
		}
	}
	v.seccomp(path.Child("seccompProfile"), sc.SeccompProfile)
	v.appArmor(path.Child("appArmorProfile"), sc.AppArmorProfile)
	v.windowsOptions(path.Child("windowsOptions"), sc.WindowsOptions)
	v.escalation(path.Child("allowPrivilegeEscalation"), sc)
}

// escalation rejects the two settings that contradict allowPrivilegeEscalation:
// false.
func (v *validator) escalation(path *field.Path, sc *v1.SecurityContext) {
	if sc.AllowPrivilegeEscalation == nil || *sc.AllowPrivilegeEscalation {
		return
	}
	if sc.Privileged != nil && *sc.Privileged {
		v.invalid(path, false, "must not be false together with privileged: true")
	}
	if sc.Capabilities == nil {
		return
	}
	for _, capability := range sc.Capabilities.Add {
		// As in the API server, only the name with the prefix counts.
		if capability == "CAP_SYS_ADMIN" {
			v.invalid(path, false, "must not be false together with the capability CAP_SYS_ADMIN")
		}
	}
}

func (v *validator) userID(path *field.Path, id *int64) {
	if id != nil {
		v.rules(path, *id, utilvalidation.IsValidUserID(*id))
	}
}

func (v *validator) groupID(path *field.Path, id *int64) {
	if id != nil {
		v.rules(path, *id, utilvalidation.IsValidGroupID(*id))
	}
}

func (v *validator) seccomp(path *field.Path, profile *v1.SeccompProfile) {
	if profile == nil {
		return
	}
	requiredOneOf(v, path.Child("type"), profile.Type,
		v1.SeccompProfileTypeLocalhost, v1.SeccompProfileTypeRuntimeDefault, v1.SeccompProfileTypeUnconfined)
	at := path.Child("localhostProfile")
	switch file := profile.LocalhostProfile; {
	case profile.Type != v1.SeccompProfileTypeLocalhost && file != nil:
		v.invalid(at, *file, "needs type: Localhost")
	case profile.Type == v1.SeccompProfileTypeLocalhost && file == nil:
		v.required(at, "must be the file of the profile, relative to the seccomp directory in the root directory")
	case file != nil:
		v.localPath(at, *file)
	}
}

func (v *validator) appArmor(path *field.Path, profile *v1.AppArmorProfile) {
	if profile == nil {
		return
	}
	const missing = "must be the name of a profile loaded on this host"
	requiredOneOf(v, path.Child("type"), profile.Type,
		v1.AppArmorProfileTypeLocalhost, v1.AppArmorProfileTypeRuntimeDefault, v1.AppArmorProfileTypeUnconfined)
	at, name := path.Child("localhostProfile"), profile.LocalhostProfile
	if profile.Type != v1.AppArmorProfileTypeLocalhost {
		known := profile.Type == v1.AppArmorProfileTypeRuntimeDefault || profile.Type == v1.AppArmorProfileTypeUnconfined
		if name != nil && known {
			v.invalid(at, *name, "needs type: Localhost")
		}
		return
	}
	if name == nil {
		v.required(at, missing)
		return
	}
	if strings.TrimSpace(*name) != *name {
		v.invalid(at, *name, "must not begin or end with white space")
	} else {
		v.requireSet(at, *name, missing)
	}
	if len(*name) > appArmorNameMax {
		v.add(field.TooLong(at, *name, appArmorNameMax))
	}
}

func (v *validator) sysctls(path *field.Path, sysctls []v1.Sysctl) {
	names := map[string]bool{}
	for i, sysctl := range sysctls {
		at := path.Index(i).Child("name")
		if v.requireSet(at, sysctl.Name, "must be the name of a kernel parameter, such as net.core.somaxconn") {
			if len(sysctl.Name) > sysctlNameMax || !sysctlName.MatchString(sysctl.Name) {
				v.invalid(at, sysctl.Name, fmt.Sprintf("must be the name of a kernel parameter, such as net.core.somaxconn, of "+
					"at most %d characters", sysctlNameMax))
			} else if names[sysctl.Name] {
				v.duplicate(at, sysctl.Name, "each kernel parameter can be set only once")
			}
		}
		names[sysctl.Name] = true
		switch name := dottedSysctl(sysctl.Name); {
		case v.spec.HostNetwork && strings.HasPrefix(name, "net."):
			v.invalid(at, sysctl.Name, "must not be set together with hostNetwork: true, since it would change the host")
		case v.spec.HostIPC && isIPCSysctl(name):
			v.invalid(at, sysctl.Name, "must not be set together with hostIPC: true, since it would change the host")
		}
	}
}

// dottedSysctl converts net/ipv4/conf/eth0.1/forwarding to the form with dots
// as separators, in which dots within a name are slashes.
func dottedSysctl(name string) string {
	if i := strings.IndexAny(name, "./"); i >= 0 && name[i] == '/' {
		name = strings.NewReplacer("/", ".", ".", "/").Replace(name)
	}
	before, _, _ := strings.Cut(name, "*")
	return before
}

func isIPCSysctl(name string) bool {
	switch name {
	case "kernel.sem", "kernel.shmall", "kernel.shmmax", "kernel.shmmni", "kernel.shm_rmid_forced", "kernel.shm",
		"kernel.msgmax", "kernel.msgmnb", "kernel.msgmni", "kernel.msg":
		return true
	}
	return strings.HasPrefix(name, "fs.mqueue.")
}

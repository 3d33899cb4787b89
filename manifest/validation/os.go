package validation

import (
	"regexp"
	"strings"

	v1 "k8s.io/api/core/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Limits on the Windows options of a container, from the API.
const (
	gmsaSpecMax       = 64 << 10
	windowsDomainMax  = 255
	windowsAccountMax = 104
)

var (
	controlCharacters = regexp.MustCompile(`[[:cntrl:]]`)
	netBIOSDomain     = regexp.MustCompile(`^[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}$`)
	windowsDNSDomain  = regexp.MustCompile(
		`^[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(\.[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*$`)
)

// podOS validates spec.os and the fields that cannot be set for that operating
// system.
func (v *validator) podOS(spec *field.Path) {
	v.hostProcess(spec)
	if v.spec.OS == nil {
		return
	}
	requiredOneOf(v, spec.Child("os", "name"), v.spec.OS.Name, v1.Linux, v1.Windows)
	switch v.spec.OS.Name {
	case v1.Linux:
		v.linuxPod(spec)
	case v1.Windows:
		v.windowsPod(spec)
	}
}

func (v *validator) linuxPod(spec *field.Path) {
	const detail = "cannot be set in a pod with os.name: linux; remove the field"
	if sc := v.spec.SecurityContext; sc != nil && sc.WindowsOptions != nil {
		v.forbidden(spec.Child("securityContext", "windowsOptions"), detail)
	}
	v.eachContainer(spec, func(path *field.Path, c *v1.Container) {
		if sc := c.SecurityContext; sc != nil && sc.WindowsOptions != nil {
			v.forbidden(path.Child("securityContext", "windowsOptions"), detail)
		}
	})
}

func (v *validator) windowsPod(spec *field.Path) {
	refuse := func(path *field.Path, settings map[string]bool) {
		for name, set := range sortedMap(settings) {
			if set {
				v.forbidden(path.Child(name), "cannot be set in a pod with os.name: windows; remove the field")
			}
		}
	}
	refuse(spec, map[string]bool{
		"hostUsers":             v.spec.HostUsers != nil,
		"hostPID":               v.spec.HostPID,
		"hostIPC":               v.spec.HostIPC,
		"shareProcessNamespace": v.spec.ShareProcessNamespace != nil,
	})
	if sc := v.spec.SecurityContext; sc != nil {
		refuse(spec.Child("securityContext"), map[string]bool{
			"appArmorProfile":          sc.AppArmorProfile != nil,
			"seLinuxOptions":           sc.SELinuxOptions != nil,
			"seccompProfile":           sc.SeccompProfile != nil,
			"fsGroup":                  sc.FSGroup != nil,
			"fsGroupChangePolicy":      sc.FSGroupChangePolicy != nil,
			"sysctls":                  len(sc.Sysctls) > 0,
			"runAsUser":                sc.RunAsUser != nil,
			"runAsGroup":               sc.RunAsGroup != nil,
			"supplementalGroups":       sc.SupplementalGroups != nil,
			"supplementalGroupsPolicy": sc.SupplementalGroupsPolicy != nil,
			"seLinuxChangePolicy":      sc.SELinuxChangePolicy != nil,
		})
	}
	v.eachContainer(spec, func(path *field.Path, c *v1.Container) {
		if sc := c.SecurityContext; sc != nil {
			refuse(path.Child("securityContext"), map[string]bool{
				"appArmorProfile":          sc.AppArmorProfile != nil,
				"seLinuxOptions":           sc.SELinuxOptions != nil,
				"seccompProfile":           sc.SeccompProfile != nil,
				"capabilities":             sc.Capabilities != nil,
				"readOnlyRootFilesystem":   sc.ReadOnlyRootFilesystem != nil,
				"privileged":               sc.Privileged != nil,
				"allowPrivilegeEscalation": sc.AllowPrivilegeEscalation != nil,
				"procMount":                sc.ProcMount != nil,
				"runAsUser":                sc.RunAsUser != nil,
				"runAsGroup":               sc.RunAsGroup != nil,
			})
		}
	})
}

// hostProcess validates Windows containers that run on the host itself: either
// all containers of a pod or none.
func (v *validator) hostProcess(spec *field.Path) {
	var pod *bool
	if sc := v.spec.SecurityContext; sc != nil && sc.WindowsOptions != nil {
		pod = sc.WindowsOptions.HostProcess
	}
	all, onHost := 0, 0
	v.eachContainer(spec, func(path *field.Path, c *v1.Container) {
		all++
		own := pod
		if sc := c.SecurityContext; sc != nil && sc.WindowsOptions != nil && sc.WindowsOptions.HostProcess != nil {
			own = sc.WindowsOptions.HostProcess
			if pod != nil && *pod != *own {
				v.invalid(path.Child("securityContext", "windowsOptions", "hostProcess"), *own,
					"must be the same as the pod's hostProcess")
			}
		}
		if own != nil && *own {
			onHost++
		}
	})
	if onHost == 0 {
		return
	}
	if onHost != all {
		v.invalid(spec, "", "must have only hostProcess containers or none")
	}
	if !v.spec.HostNetwork {
		v.invalid(spec.Child("hostNetwork"), false, "must be true in a pod with hostProcess containers")
	}
}

func (v *validator) windowsOptions(path *field.Path, options *v1.WindowsSecurityContextOptions) {
	if options == nil {
		return
	}
	if name := options.GMSACredentialSpecName; name != nil {
		v.rules(path.Child("gmsaCredentialSpecName"), *name, utilvalidation.IsDNS1123Subdomain(*name))
	}
	if spec := options.GMSACredentialSpec; spec != nil && (*spec == "" || len(*spec) > gmsaSpecMax) {
		v.invalid(path.Child("gmsaCredentialSpec"), *spec, "must be between 1 byte and 64 KiB long")
	}
	if user := options.RunAsUserName; user != nil {
		if detail := windowsUserFault(*user); detail != "" {
			v.invalid(path.Child("runAsUserName"), *user, detail)
		}
	}
}

// windowsUserFault validates USER or DOMAIN\USER.
func windowsUserFault(name string) string {
	domain, user, hasDomain := strings.Cut(name, `\`)
	if !hasDomain {
		domain, user = "", name
	}
	switch {
	case name == "":
		return `must be USER or DOMAIN\USER`
	case controlCharacters.MatchString(name):
		return "must not contain control characters"
	case strings.Contains(user, `\`):
		return `must be USER or DOMAIN\USER, with at most one backslash`
	case len(domain) > windowsDomainMax:
		return "must have a domain of at most 255 characters"
	case hasDomain && !netBIOSDomain.MatchString(domain) && !windowsDNSDomain.MatchString(domain):
		return "must have a NetBIOS or DNS name as its domain"
	case user == "" || len(user) > windowsAccountMax:
		return "must have a user of 1 to 104 characters"
	case strings.Trim(user, ". ") == "":
		return "must have a user that does not consist of periods and spaces"
	case strings.ContainsAny(user, `"/\:;|=,+*?<>@[]`):
		return `must have a user without the characters "/\:;|=,+*?<>@[]`
	}
	return ""
}

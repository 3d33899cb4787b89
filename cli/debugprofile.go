package cli

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// debugProfiles are what an ephemeral container is allowed, by the names of kubectl debug.
var debugProfiles = map[string]func(pod *v1.Pod) *v1.SecurityContext{
	"general":  func(*v1.Pod) *v1.SecurityContext { return withCapabilities("SYS_PTRACE") },
	"baseline": func(*v1.Pod) *v1.SecurityContext { return nil },
	"restricted": func(*v1.Pod) *v1.SecurityContext {
		yes, no := true, false
		return &v1.SecurityContext{
			RunAsNonRoot: &yes, AllowPrivilegeEscalation: &no,
			Capabilities:   &v1.Capabilities{Drop: []v1.Capability{"ALL"}},
			SeccompProfile: &v1.SeccompProfile{Type: v1.SeccompProfileTypeRuntimeDefault},
		}
	},
	"netadmin": func(*v1.Pod) *v1.SecurityContext { return withCapabilities("NET_ADMIN", "NET_RAW") },
	"sysadmin": func(pod *v1.Pod) *v1.SecurityContext {
		yes := true
		for c := range podinfo.EachContainer(&pod.Spec, podinfo.SpecContainers) {
			if sc := c.SecurityContext; sc != nil && sc.Privileged != nil && *sc.Privileged {
				return &v1.SecurityContext{Privileged: &yes}
			}
		}
		// The runtime refuses a privileged container in a sandbox that is not.
		sc := withCapabilities("ALL")
		sc.AllowPrivilegeEscalation = &yes
		sc.SeccompProfile = &v1.SeccompProfile{Type: v1.SeccompProfileTypeUnconfined}
		return sc
	},
}

// profileNames are the names of debugProfiles, the default first.
var profileNames = []string{"general", "baseline", "restricted", "netadmin", "sysadmin"}

func withCapabilities(names ...v1.Capability) *v1.SecurityContext {
	return &v1.SecurityContext{Capabilities: &v1.Capabilities{Add: names}}
}

func checkProfile(name string) error {
	if !slices.Contains(profileNames, name) {
		return fmt.Errorf("--profile %q: must be one of %s", name, strings.Join(profileNames, ", "))
	}
	return nil
}

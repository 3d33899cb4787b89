package admit

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
)

// appArmor refuses what a host without AppArmor cannot confine: the runtime
// would start it unconfined.
func appArmor(pod *v1.Pod, n *Node) *Refusal {
	if n.AppArmor {
		return nil
	}
	where := ""
	if sc := pod.Spec.SecurityContext; sc != nil && confines(sc.AppArmorProfile) {
		where = "spec.securityContext"
	}
	for _, list := range []struct {
		name       string
		containers []v1.Container
	}{{"initContainers", pod.Spec.InitContainers}, {"containers", pod.Spec.Containers}} {
		for i := range list.containers {
			if sc := list.containers[i].SecurityContext; where == "" && sc != nil && confines(sc.AppArmorProfile) {
				where = fmt.Sprintf("spec.%s[%d].securityContext", list.name, i)
			}
		}
	}
	if where == "" {
		return nil
	}
	return &Refusal{ReasonAppArmor, where + ".appArmorProfile: AppArmor is not enabled on this host; " +
		"boot with apparmor=1 security=apparmor, or take the profile out"}
}

// SELinuxIgnored is not nil if the pod has SELinux options that mean nothing
// here: without SELinux there is nothing for a runtime to label. As everywhere, the pod runs.
func SELinuxIgnored(pod *v1.Pod, n *Node) *Refusal {
	if n.SELinux {
		return nil
	}
	labelled := pod.Spec.SecurityContext != nil && pod.Spec.SecurityContext.SELinuxOptions != nil
	for _, containers := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			sc := containers[i].SecurityContext
			labelled = labelled || sc != nil && sc.SELinuxOptions != nil
		}
	}
	if !labelled {
		return nil
	}
	return &Refusal{"SELinuxIgnored", "the pod's seLinuxOptions have no effect: this host has no SELinux"}
}

func confines(p *v1.AppArmorProfile) bool {
	return p != nil && p.Type != v1.AppArmorProfileTypeUnconfined
}

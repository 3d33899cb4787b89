package admit

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// appArmor refuses what a host without AppArmor cannot confine: the runtime
// would start it unconfined.
func checkAppArmor(pod *v1.Pod, n *Node) *Cause {
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
	return &Cause{ReasonAppArmor, where + ".appArmorProfile: AppArmor is not enabled on this host; " +
		"boot with apparmor=1 security=apparmor, or remove the profile"}
}

// SELinuxIgnored returns a warning if the pod has SELinux options and the host has
// no SELinux, nil otherwise. There is nothing for the runtime to label then, and the
// pod runs, as at the kubelet.
func SELinuxIgnored(pod *v1.Pod, n *Node) *Cause {
	if n.SELinux {
		return nil
	}
	labelled := pod.Spec.SecurityContext != nil && pod.Spec.SecurityContext.SELinuxOptions != nil
	for c := range podinfo.EachContainer(&pod.Spec, podinfo.SpecContainers) {
		labelled = labelled || c.SecurityContext != nil && c.SecurityContext.SELinuxOptions != nil
	}
	if !labelled {
		return nil
	}
	return &Cause{"SELinuxIgnored", "seLinuxOptions have no effect: this host has no SELinux"}
}

// confines reports whether a profile asks for AppArmor.
func confines(p *v1.AppArmorProfile) bool {
	return p != nil && p.Type != v1.AppArmorProfileTypeUnconfined
}

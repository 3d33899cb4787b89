package admit

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// checkTaints checks the node's NoExecute taints, as the kubelet does: the scheduler
// honours the others. A static pod runs here because of its manifest and needs no
// toleration.
func checkTaints(pod *v1.Pod, n *Node) *Cause {
	if n.Taints == nil || podinfo.PolicyOf(pod).Static {
		return nil
	}
	var left []string
	for _, taint := range n.Taints() {
		if taint.Effect == v1.TaintEffectNoExecute && !tolerates(pod.Spec.Tolerations, &taint) {
			left = append(left, taint.ToString())
		}
	}
	if len(left) == 0 {
		return nil
	}
	return &Cause{ReasonTaint, fmt.Sprintf("spec.tolerations: the node has taints that the pod does not tolerate: %s; "+
		"add tolerations, or remove the taints", strings.Join(left, ", "))}
}

func tolerates(tolerations []v1.Toleration, taint *v1.Taint) bool {
	for i := range tolerations {
		// The API server decides whether tolerations may compare numbers.
		if tolerations[i].ToleratesTaint(klog.Logger{}, taint, true) {
			return true
		}
	}
	return false
}

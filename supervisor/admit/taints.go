package admit

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// The mark of a pod of the cluster, as the kubelet has it.
const (
	sourceAPI = "api"
)

// tolerated judges the node's NoExecute taints, as the kubelet does: the others
// are the scheduler's to honour. A pod of a file or a URL is here by its
// manifest and is asked for no toleration.
func tolerated(pod *v1.Pod, n *Node) *Refusal {
	if n.Taints == nil || pod.Annotations[podinfo.AnnotationSource] != sourceAPI {
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
	return &Refusal{ReasonTaint, fmt.Sprintf("spec.tolerations: the node has taints that the pod does not tolerate: %s; add tolerations, or take the taints off", strings.Join(left, ", "))}
}

func tolerates(tolerations []v1.Toleration, taint *v1.Taint) bool {
	for i := range tolerations {
		// Whether tolerations may compare numbers is the API server's to judge.
		if tolerations[i].ToleratesTaint(klog.Logger{}, taint, true) {
			return true
		}
	}
	return false
}

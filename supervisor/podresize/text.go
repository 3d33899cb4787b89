package podresize

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// resizeText lists the resources of a pod and its containers.
func resizeText(pod *v1.Pod) string {
	var parts []string
	if r := pod.Spec.Resources; r != nil {
		parts = append(parts, fmt.Sprintf("pod requests %s, limits %s", listText(r.Requests), listText(r.Limits)))
	}
	for c := range podinfo.EachContainer(&pod.Spec, podinfo.SpecContainers) {
		parts = append(parts, fmt.Sprintf("container %s requests %s, limits %s", c.Name, listText(c.Resources.Requests),
			listText(c.Resources.Limits)))
	}
	return strings.Join(parts, "; ")
}

func listText(list v1.ResourceList) string {
	var parts []string
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		if q, ok := list[name]; ok {
			parts = append(parts, fmt.Sprintf("%s=%s", name, q.String()))
		}
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ",")
}

// withoutDigits returns a text without its digits, which differ from one attempt to the next.
func withoutDigits(text string) string {
	return strings.Map(func(c rune) rune {
		if '0' <= c && c <= '9' {
			return -1
		}
		return c
	}, text)
}

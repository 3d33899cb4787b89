package admit

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// checkSelector checks spec.nodeSelector and the required node affinity. Preferences
// choose among nodes, and there is one.
func checkSelector(pod *v1.Pod, n *Node) *Cause {
	var missing []string
	for _, key := range slices.Sorted(maps.Keys(pod.Spec.NodeSelector)) {
		want := pod.Spec.NodeSelector[key]
		if have, ok := n.Labels[key]; !ok || have != want {
			missing = append(missing, key+"="+want)
		}
	}
	if len(missing) > 0 {
		return &Cause{ReasonAffinity, fmt.Sprintf("spec.nodeSelector: this node is not labelled %[1]s; start podstead with "+
			"--node-labels=%[1]s, or remove the selector",
			strings.Join(missing, ","))}
	}
	terms := requiredTerms(pod)
	if terms == nil {
		return nil
	}
	faults, matched := n.unmatchedTerms(terms)
	if matched {
		return nil
	}
	return &Cause{ReasonAffinity, fmt.Sprintf("spec.affinity.nodeAffinity: no term matches this node (%s); label it "+
		"with --node-labels, or remove the affinity",
		strings.Join(faults, "; "))}
}

// unmatchedTerms returns the first requirement of each term that the node does not meet;
// matched reports that it meets one of the terms.
func (n *Node) unmatchedTerms(terms *v1.NodeSelector) (faults []string, matched bool) {
	for i := range terms.NodeSelectorTerms {
		fault := podinfo.UnmatchedRequirement(&terms.NodeSelectorTerms[i], n.Name, n.Labels)
		if fault == "" {
			return nil, true
		}
		faults = append(faults, fault)
	}
	return faults, false
}

// Matches reports whether the node matches a selector, as that of a PersistentVolume.
func (n *Node) Matches(selector *v1.NodeSelector) bool {
	return podinfo.MatchesNode(selector, n.Name, n.Labels)
}

func requiredTerms(pod *v1.Pod) *v1.NodeSelector {
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		return a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	return nil
}

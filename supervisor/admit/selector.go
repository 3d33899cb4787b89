package admit

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
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
		return &Cause{ReasonAffinity, fmt.Sprintf("spec.nodeSelector: this node is not labelled %[1]s; start podstead with --node-labels=%[1]s, or remove the selector",
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
	return &Cause{ReasonAffinity, fmt.Sprintf("spec.affinity.nodeAffinity: no term matches this node (%s); label it with --node-labels, or remove the affinity",
		strings.Join(faults, "; "))}
}

// unmatchedTerms returns the first requirement of each term that the node does not meet;
// matched says that it meets one of the terms.
func (n *Node) unmatchedTerms(terms *v1.NodeSelector) (faults []string, matched bool) {
	for i := range terms.NodeSelectorTerms {
		fault := n.unmatchedRequirement(&terms.NodeSelectorTerms[i])
		if fault == "" {
			return nil, true
		}
		faults = append(faults, fault)
	}
	return faults, false
}

// Matches reports whether the node matches a selector, as that of a PersistentVolume.
func (n *Node) Matches(selector *v1.NodeSelector) bool {
	_, matched := n.unmatchedTerms(selector)
	return matched
}

func requiredTerms(pod *v1.Pod) *v1.NodeSelector {
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		return a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	return nil
}

// unmatchedRequirement returns the first requirement of a term that the node does not
// meet, empty if it meets all. A term without requirements matches nothing.
func (n *Node) unmatchedRequirement(term *v1.NodeSelectorTerm) string {
	if len(term.MatchExpressions)+len(term.MatchFields) == 0 {
		return "a term is empty"
	}
	for i := range term.MatchExpressions {
		if r := &term.MatchExpressions[i]; !matchesRequirement(r, n.Labels) {
			return requirementText(r)
		}
	}
	for i := range term.MatchFields {
		if r := &term.MatchFields[i]; !matchesRequirement(r, map[string]string{"metadata.name": n.Name}) {
			return requirementText(r)
		}
	}
	return ""
}

func requirementText(r *v1.NodeSelectorRequirement) string {
	return strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Key, r.Operator, strings.Join(r.Values, ",")))
}

// matchesRequirement checks one requirement against labels. A label that is absent is
// in no list and compares with nothing.
func matchesRequirement(r *v1.NodeSelectorRequirement, labels map[string]string) bool {
	have, ok := labels[r.Key]
	switch r.Operator {
	case v1.NodeSelectorOpIn:
		return ok && slices.Contains(r.Values, have)
	case v1.NodeSelectorOpNotIn:
		return !ok || !slices.Contains(r.Values, have)
	case v1.NodeSelectorOpExists:
		return ok
	case v1.NodeSelectorOpDoesNotExist:
		return !ok
	case v1.NodeSelectorOpGt, v1.NodeSelectorOpLt:
		if !ok || len(r.Values) != 1 {
			return false
		}
		a, err := strconv.ParseInt(have, 10, 64)
		b, errB := strconv.ParseInt(r.Values[0], 10, 64)
		if err != nil || errB != nil {
			return false
		}
		return r.Operator == v1.NodeSelectorOpGt && a > b || r.Operator == v1.NodeSelectorOpLt && a < b
	}
	return false
}

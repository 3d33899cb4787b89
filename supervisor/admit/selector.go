package admit

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// selected judges spec.nodeSelector and the node affinity that is required.
// What is preferred chooses among nodes, of which there is one.
func selected(pod *v1.Pod, n *Node) *Refusal {
	var missing []string
	for _, key := range slices.Sorted(maps.Keys(pod.Spec.NodeSelector)) {
		want := pod.Spec.NodeSelector[key]
		if have, ok := n.Labels[key]; !ok || have != want {
			missing = append(missing, key+"="+want)
		}
	}
	if len(missing) > 0 {
		return &Refusal{ReasonAffinity, fmt.Sprintf("spec.nodeSelector: this node is not labelled %[1]s; start podstead with --node-labels=%[1]s, or take it out",
			strings.Join(missing, ","))}
	}
	terms := requiredTerms(pod)
	if terms == nil {
		return nil
	}
	faults := make([]string, 0, len(terms.NodeSelectorTerms))
	for i := range terms.NodeSelectorTerms {
		fault := n.unmatched(&terms.NodeSelectorTerms[i])
		if fault == "" {
			return nil
		}
		faults = append(faults, fault)
	}
	return &Refusal{ReasonAffinity, fmt.Sprintf("spec.affinity.nodeAffinity: no term matches this node (%s); label it with --node-labels, or take the term out",
		strings.Join(faults, "; "))}
}

func requiredTerms(pod *v1.Pod) *v1.NodeSelector {
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		return a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	return nil
}

// unmatched is the first requirement of a term that the node does not meet, empty
// if it meets all. A term without requirements matches nothing.
func (n *Node) unmatched(term *v1.NodeSelectorTerm) string {
	if len(term.MatchExpressions)+len(term.MatchFields) == 0 {
		return "it asks for nothing"
	}
	for i := range term.MatchExpressions {
		if r := &term.MatchExpressions[i]; !meets(r, n.Labels) {
			return words(r)
		}
	}
	for i := range term.MatchFields {
		if r := &term.MatchFields[i]; !meets(r, map[string]string{"metadata.name": n.Name}) {
			return words(r)
		}
	}
	return ""
}

func words(r *v1.NodeSelectorRequirement) string {
	return strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Key, r.Operator, strings.Join(r.Values, ",")))
}

// meets holds one requirement against labels. A label that is absent is in no
// list and compares with nothing.
func meets(r *v1.NodeSelectorRequirement, labels map[string]string) bool {
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

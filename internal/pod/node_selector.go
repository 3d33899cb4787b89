package pod

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// MatchesNode reports whether a node matches one of the terms of a selector, as that of a
// PersistentVolume.
func MatchesNode(selector *v1.NodeSelector, name string, labels map[string]string) bool {
	return slices.ContainsFunc(selector.NodeSelectorTerms, func(term v1.NodeSelectorTerm) bool {
		return UnmatchedRequirement(&term, name, labels) == ""
	})
}

// UnmatchedRequirement returns the first requirement of a term that a node does not
// meet, empty if it meets all. A term without requirements matches nothing.
func UnmatchedRequirement(term *v1.NodeSelectorTerm, name string, labels map[string]string) string {
	if len(term.MatchExpressions)+len(term.MatchFields) == 0 {
		return "a term is empty"
	}
	for i := range term.MatchExpressions {
		if r := &term.MatchExpressions[i]; !matchesRequirement(r, labels) {
			return requirementText(r)
		}
	}
	for i := range term.MatchFields {
		if r := &term.MatchFields[i]; !matchesRequirement(r, map[string]string{"metadata.name": name}) {
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

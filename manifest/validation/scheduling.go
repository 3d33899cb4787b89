package validation

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// podScheduling validates what a scheduler would read.
func (v *validator) podScheduling(spec *field.Path) {
	s := v.spec
	v.labels(spec.Child("nodeSelector"), s.NodeSelector)
	v.tolerations(spec.Child("tolerations"), s.Tolerations)
	v.affinity(spec.Child("affinity"), s.Affinity)
	v.topologySpread(spec.Child("topologySpreadConstraints"), s.TopologySpreadConstraints)
	if gates := spec.Child("schedulingGates"); len(s.SchedulingGates) > 0 {
		// A static pod is bound to its node before it is validated.
		v.forbidden(gates, "a static pod is bound to its node from the start; remove the field")
		names := map[string]bool{}
		for i, gate := range s.SchedulingGates {
			v.qualifiedName(gates.Index(i).Child("name"), gate.Name)
			if names[gate.Name] {
				v.duplicate(gates.Index(i).Child("name"), gate.Name, "scheduling gates need unique names")
			}
			names[gate.Name] = true
		}
	}
	if group := s.SchedulingGroup; group != nil {
		at := spec.Child("schedulingGroup", "podGroupName")
		if group.PodGroupName == nil {
			v.invalid(at, "", "must be the name of a pod group")
		} else {
			v.dnsSubdomain(at, *group.PodGroupName)
		}
	}
}

func (v *validator) tolerations(path *field.Path, tolerations []v1.Toleration) {
	for i, t := range tolerations {
		at := path.Index(i)
		if t.Key != "" {
			v.add(metav1validation.ValidateLabelName(t.Key, at.Child("key"))...)
		} else if t.Operator != v1.TolerationOpExists {
			v.invalid(at.Child("operator"), t.Operator,
				"must be Exists for a toleration without a key, which matches all taints")
		}
		if t.TolerationSeconds != nil && t.Effect != v1.TaintEffectNoExecute {
			v.invalid(at.Child("effect"), t.Effect, "must be NoExecute when tolerationSeconds is set")
		}
		switch t.Operator {
		case "", v1.TolerationOpEqual:
			v.rules(at.Child("value"), t.Value, utilvalidation.IsValidLabelValue(t.Value))
		case v1.TolerationOpExists:
			if t.Value != "" {
				v.invalid(at.Child("value"), t.Value, "must be omitted with operator: Exists")
			}
		default: // Lt and Gt are behind a feature gate that is off by default in v1.36.
			oneOf(v, at.Child("operator"), t.Operator, v1.TolerationOpEqual, v1.TolerationOpExists)
		}
		if t.Effect != "" {
			oneOf(v, at.Child("effect"), t.Effect, v1.TaintEffectNoSchedule, v1.TaintEffectPreferNoSchedule,
				v1.TaintEffectNoExecute)
		}
	}
}

func (v *validator) topologySpread(path *field.Path, constraints []v1.TopologySpreadConstraint) {
	for i, c := range constraints {
		at := path.Index(i)
		if c.MaxSkew <= 0 {
			v.invalid(at.Child("maxSkew"), c.MaxSkew, "must be 1 or more")
		}
		v.requireSet(at.Child("topologyKey"), c.TopologyKey, "must be the name of a node label")
		oneOf(v, at.Child("whenUnsatisfiable"), c.WhenUnsatisfiable, v1.DoNotSchedule, v1.ScheduleAnyway)
		if slices.ContainsFunc(constraints[i+1:], func(other v1.TopologySpreadConstraint) bool {
			return other.TopologyKey == c.TopologyKey && other.WhenUnsatisfiable == c.WhenUnsatisfiable
		}) {
			v.duplicate(at, c.TopologyKey, "each combination of topologyKey and whenUnsatisfiable may occur only once")
		}
		if domains := c.MinDomains; domains != nil {
			if *domains <= 0 {
				v.invalid(at.Child("minDomains"), *domains, "must be 1 or more")
			}
			if c.WhenUnsatisfiable != v1.DoNotSchedule {
				v.invalid(at.Child("minDomains"), *domains, "needs whenUnsatisfiable: DoNotSchedule")
			}
		}
		optionalOneOf(v, at.Child("nodeAffinityPolicy"), c.NodeAffinityPolicy, v1.NodeInclusionPolicyIgnore,
			v1.NodeInclusionPolicyHonor)
		optionalOneOf(v, at.Child("nodeTaintsPolicy"), c.NodeTaintsPolicy, v1.NodeInclusionPolicyIgnore,
			v1.NodeInclusionPolicyHonor)
		v.labelKeys(at, c.MatchLabelKeys, nil, c.LabelSelector)
		v.labelSelector(at.Child("labelSelector"), c.LabelSelector)
	}
}

func (v *validator) affinity(path *field.Path, affinity *v1.Affinity) {
	if affinity == nil {
		return
	}
	const required, preferred = "requiredDuringSchedulingIgnoredDuringExecution",
		"preferredDuringSchedulingIgnoredDuringExecution"
	if node := affinity.NodeAffinity; node != nil {
		at := path.Child("nodeAffinity")
		if terms := node.RequiredDuringSchedulingIgnoredDuringExecution; terms != nil {
			list := at.Child(required, "nodeSelectorTerms")
			if len(terms.NodeSelectorTerms) == 0 {
				v.required(list, "must have at least one term")
			}
			for i := range terms.NodeSelectorTerms {
				v.nodeTerm(list.Index(i), &terms.NodeSelectorTerms[i], true)
			}
		}
		for i, term := range node.PreferredDuringSchedulingIgnoredDuringExecution {
			v.inRange(at.Child(preferred).Index(i).Child("weight"), int64(term.Weight), 1, 100)
			v.nodeTerm(at.Child(preferred).Index(i).Child("preference"), &term.Preference, false)
		}
	}
	terms := func(at *field.Path, must []v1.PodAffinityTerm, may []v1.WeightedPodAffinityTerm) {
		for i := range must {
			v.podTerm(at.Child(required).Index(i), &must[i])
		}
		for i := range may {
			v.inRange(at.Child(preferred).Index(i).Child("weight"), int64(may[i].Weight), 1, 100)
			v.podTerm(at.Child(preferred).Index(i).Child("podAffinityTerm"), &may[i].PodAffinityTerm)
		}
	}
	if pod := affinity.PodAffinity; pod != nil {
		terms(path.Child("podAffinity"), pod.RequiredDuringSchedulingIgnoredDuringExecution,
			pod.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if pod := affinity.PodAntiAffinity; pod != nil {
		terms(path.Child("podAntiAffinity"), pod.RequiredDuringSchedulingIgnoredDuringExecution,
			pod.PreferredDuringSchedulingIgnoredDuringExecution)
	}
}

// nodeTerm validates a node selector term. The values of a preferred term may
// be invalid as label values: the term then prefers nothing.
func (v *validator) nodeTerm(path *field.Path, term *v1.NodeSelectorTerm, labelValues bool) {
	for i, r := range term.MatchExpressions {
		at := path.Child("matchExpressions").Index(i)
		switch r.Operator {
		case v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn:
			if len(r.Values) == 0 {
				v.required(at.Child("values"), "In and NotIn need at least one value")
			}
		case v1.NodeSelectorOpExists, v1.NodeSelectorOpDoesNotExist:
			if len(r.Values) > 0 {
				v.forbidden(at.Child("values"), "Exists and DoesNotExist take no values; remove them")
			}
		case v1.NodeSelectorOpGt, v1.NodeSelectorOpLt:
			if len(r.Values) != 1 {
				v.required(at.Child("values"), "Gt and Lt need exactly one value")
			}
		default:
			v.invalid(at.Child("operator"), r.Operator, "must be In, NotIn, Exists, DoesNotExist, Gt or Lt")
		}
		v.add(metav1validation.ValidateLabelName(r.Key, at.Child("key"))...)
		for j, value := range r.Values {
			if labelValues {
				v.rules(at.Child("values").Index(j), value, utilvalidation.IsValidLabelValue(value))
			}
		}
	}
	for i, r := range term.MatchFields {
		at := path.Child("matchFields").Index(i)
		if r.Operator != v1.NodeSelectorOpIn && r.Operator != v1.NodeSelectorOpNotIn {
			v.invalid(at.Child("operator"), r.Operator, "must be In or NotIn")
		} else if len(r.Values) != 1 {
			v.required(at.Child("values"), "a field needs exactly one value")
		}
		if r.Key != metav1.ObjectNameField {
			v.invalid(at.Child("key"), r.Key, "must be metadata.name, the only field of a node that can be matched")
			continue
		}
		for j, value := range r.Values {
			v.dnsSubdomain(at.Child("values").Index(j), value)
		}
	}
}

func (v *validator) podTerm(path *field.Path, term *v1.PodAffinityTerm) {
	v.labelSelector(path.Child("labelSelector"), term.LabelSelector)
	v.labelSelector(path.Child("namespaceSelector"), term.NamespaceSelector)
	for i, name := range term.Namespaces {
		v.rules(path.Child("namespaces").Index(i), name, validation.ValidateNamespaceName(name, false))
	}
	v.labelKeys(path, term.MatchLabelKeys, term.MismatchLabelKeys, term.LabelSelector)
	if v.requireSet(path.Child("topologyKey"), term.TopologyKey, "must be the name of a node label") {
		v.add(metav1validation.ValidateLabelName(term.TopologyKey, path.Child("topologyKey"))...)
	}
}

func (v *validator) labelSelector(path *field.Path, selector *metav1.LabelSelector) {
	v.addInOrder(metav1validation.ValidateLabelSelector(selector, metav1validation.LabelSelectorValidationOptions{}, path))
}

// labelKeys validates keys whose values are taken from the pod's own labels and
// added to its selector.
func (v *validator) labelKeys(path *field.Path, match, mismatch []string, selector *metav1.LabelSelector) {
	each := func(at *field.Path, keys []string) {
		if len(keys) > 0 && selector == nil {
			v.forbidden(at, "needs a labelSelector; add one")
			return
		}
		for i, key := range keys {
			v.add(metav1validation.ValidateLabelName(key, at.Index(i))...)
		}
	}
	each(path.Child("matchLabelKeys"), match)
	each(path.Child("mismatchLabelKeys"), mismatch)
	for i, key := range match {
		at := path.Child("matchLabelKeys").Index(i)
		if slices.Contains(mismatch, key) {
			v.invalid(at, key, "must not also be in mismatchLabelKeys")
		}
		if repeated := slices.Contains(match[i+1:], key); !repeated && selector != nil && timesSelected(selector, key) > 1 {
			v.invalid(at, key, "must not also be in labelSelector")
		}
	}
}

// timesSelected counts how often a selector contains a key. The API server adds
// matchLabelKeys to the selector before it searches for a second occurrence, so
// that the first one is never an error there.
func timesSelected(selector *metav1.LabelSelector, key string) int {
	times := 0
	if _, ok := selector.MatchLabels[key]; ok {
		times++
	}
	for _, expression := range selector.MatchExpressions {
		if expression.Key == key {
			times++
		}
	}
	return times
}

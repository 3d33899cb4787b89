package admit

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// placement is what a pod requires of the pods that run on the same node, judged as the
// scheduler judges it (its plugins InterPodAffinity and PodTopologySpread) on a cluster of this
// one node.
type placement struct {
	affinity, antiAffinity []podTerm
	spreads                []spread
}

// podTerm is one term of a required pod affinity or anti-affinity.
type podTerm struct {
	// path is the term's field, selects its selectors as text.
	path, selects, topologyKey string
	namespaces                 []string
	namespaceSelector          labels.Selector
	selector                   labels.Selector
}

// spread is a DoNotSchedule constraint that this node alone can break: with one domain the
// number of pods counts only against minDomains.
type spread struct {
	path, selects, topologyKey string
	selector                   labels.Selector
	maxSkew                    int
}

const (
	podAffinityPath     = "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution"
	podAntiAffinityPath = "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution"
	spreadPath          = "spec.topologySpreadConstraints"
)

// placementOf returns what a pod requires, nil for nothing.
func placementOf(pod *v1.Pod) *placement {
	p := &placement{}
	if a := pod.Spec.Affinity; a != nil && a.PodAffinity != nil {
		p.affinity = podTerms(pod, podAffinityPath, a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
	}
	if a := pod.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		p.antiAffinity = podTerms(pod, podAntiAffinityPath, a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
	}
	for i := range pod.Spec.TopologySpreadConstraints {
		c := &pod.Spec.TopologySpreadConstraints[i]
		if c.WhenUnsatisfiable == v1.DoNotSchedule && c.MinDomains != nil && *c.MinDomains > 1 {
			p.spreads = append(p.spreads, spread{
				path: fmt.Sprintf("%s[%d]", spreadPath, i), selects: metav1.FormatLabelSelector(c.LabelSelector),
				topologyKey: c.TopologyKey,
				selector:    withLabelKeys(c.LabelSelector, pod.Labels, c.MatchLabelKeys, nil), maxSkew: int(c.MaxSkew),
			})
		}
	}
	if len(p.affinity)+len(p.antiAffinity)+len(p.spreads) == 0 {
		return nil
	}
	return p
}

func podTerms(pod *v1.Pod, path string, terms []v1.PodAffinityTerm) []podTerm {
	list := make([]podTerm, 0, len(terms))
	for i := range terms {
		t := &terms[i]
		term := podTerm{
			path: fmt.Sprintf("%s[%d]", path, i), selects: metav1.FormatLabelSelector(t.LabelSelector),
			topologyKey: t.TopologyKey,
			namespaces:  t.Namespaces, namespaceSelector: withLabelKeys(t.NamespaceSelector, nil, nil, nil),
			selector: withLabelKeys(t.LabelSelector, pod.Labels, t.MatchLabelKeys, t.MismatchLabelKeys),
		}
		if len(t.Namespaces) == 0 && t.NamespaceSelector == nil {
			term.namespaces = []string{pod.Namespace}
		}
		list = append(list, term)
	}
	return list
}

// withLabelKeys returns a selector with the requirements that an API server adds to it from
// matchLabelKeys and mismatchLabelKeys: the pod's own value of each key. nil selects nothing.
func withLabelKeys(selector *metav1.LabelSelector, own map[string]string, match, mismatch []string) labels.Selector {
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return labels.Nothing() // not a validated one
	}
	for _, keys := range []struct {
		operator selection.Operator
		names    []string
	}{{selection.In, match}, {selection.NotIn, mismatch}} {
		for _, key := range keys.names {
			if value, ok := own[key]; ok {
				if r, err := labels.NewRequirement(key, keys.operator, []string{value}); err == nil {
					s = s.Add(*r)
				}
			}
		}
	}
	return s
}

// matches reports whether a term selects a pod. Of a namespace only the label is known that an
// API server gives it, its name.
func (t *podTerm) matches(pod *v1.Pod) bool {
	return (slices.Contains(t.namespaces, pod.Namespace) ||
		t.namespaceSelector.Matches(labels.Set{v1.LabelMetadataName: pod.Namespace})) &&
		t.selector.Matches(labels.Set(pod.Labels))
}

func matchesAll(terms []podTerm, pod *v1.Pod) bool {
	return !slices.ContainsFunc(terms, func(t podTerm) bool { return !t.matches(pod) })
}

// checkTopology checks that the node has the labels that name the domains of a pod's required
// affinities and spreads. Without the label no anti-affinity can be broken. The scheduler has
// checked a pod of an API server.
func checkTopology(pod *v1.Pod, n *Node) *Cause {
	if !podinfo.PolicyOf(pod).Static {
		return nil
	}
	missing := func(reason, path string, i int, key string) *Cause {
		if _, ok := n.Labels[key]; ok {
			return nil
		}
		return &Cause{reason, fmt.Sprintf("%s[%d].topologyKey: this node has no label %[3]s; start podstead with "+
			"--node-labels=%[3]s=VALUE, or use %[4]s", path, i, key, v1.LabelHostname)}
	}
	if a := pod.Spec.Affinity; a != nil && a.PodAffinity != nil {
		for i, t := range a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
			if cause := missing(ReasonPodAffinity, podAffinityPath, i, t.TopologyKey); cause != nil {
				return cause
			}
		}
	}
	for i, c := range pod.Spec.TopologySpreadConstraints {
		if c.WhenUnsatisfiable == v1.DoNotSchedule {
			if cause := missing(ReasonTopologySpread, spreadPath, i, c.TopologyKey); cause != nil {
				return cause
			}
		}
	}
	return nil
}

// misplaced returns why a pod may not run next to the holders for which counts is true, nil if
// it may. A pod of an API server was placed by the scheduler. What runs is never judged: the
// rules are about the start.
func (f *forecast) misplaced(s *Request, counts func(*Request) bool) *Cause {
	if s.Resize || s.placement == nil && len(f.antiAffinity) == 0 || !podinfo.PolicyOf(s.Pod).Static {
		return nil
	}
	others := func(list []*Request) []*Request {
		return slices.DeleteFunc(slices.Clone(list), func(h *Request) bool { return h.Name == s.Name || !counts(h) })
	}
	for _, h := range others(f.antiAffinity) {
		for _, t := range h.placement.antiAffinity {
			if f.hasDomain(t.topologyKey) && t.matches(s.Pod) {
				return &Cause{ReasonPodAffinity,
					fmt.Sprintf("%s of pod %s: it must not run on the same %s as this pod; the pod starts when that one has ended",
						t.path, podinfo.FullName(h.Pod), t.topologyKey)}
			}
		}
	}
	if s.placement == nil {
		return nil
	}
	holders := others(f.holders)
	for _, t := range s.placement.antiAffinity {
		for _, h := range holders {
			if f.hasDomain(t.topologyKey) && t.matches(h.Pod) {
				return &Cause{ReasonPodAffinity,
					fmt.Sprintf("%s: the pod must not run on the same %s as pod %s (labelSelector %s); it starts when that one has "+
						"ended", t.path, t.topologyKey, podinfo.FullName(h.Pod), t.selects)}
			}
		}
	}
	// A pod that only waits may never run.
	if cause := s.placement.lacksCompany(s.Pod, others(f.running)); cause != nil {
		return cause
	}
	return s.placement.skewed(s.Pod, holders)
}

// hasDomain reports whether the node is in a domain of a topology key.
func (f *forecast) hasDomain(key string) bool {
	_, ok := f.labels[key]
	return ok
}

// lacksCompany returns which required affinity none of the pods meets. A pod that all terms select
// must meet each of them. The first pod of a group, which its own terms select, may start alone.
func (p *placement) lacksCompany(pod *v1.Pod, holders []*Request) *Cause {
	if len(p.affinity) == 0 || slices.ContainsFunc(holders,
		func(h *Request) bool { return matchesAll(p.affinity, h.Pod) }) || matchesAll(p.affinity, pod) {
		return nil
	}
	t := p.affinity[0]
	for _, term := range p.affinity {
		if !slices.ContainsFunc(holders, func(h *Request) bool { return term.matches(h.Pod) }) {
			t = term
			break
		}
	}
	return &Cause{ReasonPodAffinity,
		fmt.Sprintf("%s: no pod that labelSelector %s selects runs on the same %s; the pod starts when one does", t.path,
			t.selects, t.topologyKey)}
}

// skewed returns which spread has too many pods on this node: fewer domains than minDomains
// count as if another one had no pod.
func (p *placement) skewed(pod *v1.Pod, holders []*Request) *Cause {
	for _, c := range p.spreads {
		count := 0
		for _, h := range holders {
			if !h.Terminating && h.Pod.Namespace == pod.Namespace && c.selector.Matches(labels.Set(h.Pod.Labels)) {
				count++
			}
		}
		own := 0
		if c.selector.Matches(labels.Set(pod.Labels)) {
			own = 1
		}
		if count+own > c.maxSkew {
			return &Cause{ReasonTopologySpread, fmt.Sprintf("%s: %d pods that labelSelector %s selects run on this %s, and "+
				"with minDomains above 1 there may be maxSkew %d; the pod starts when one of them has ended",
				c.path, count, c.selects, c.topologyKey, c.maxSkew)}
		}
	}
	return nil
}

package config

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Registration are the settings of the node's object in a cluster.
type Registration struct {
	// Register creates the Node object; otherwise an administrator must create it.
	Register bool
	// Taints and ProviderID are set when the node registers.
	Taints     []v1.Taint
	ProviderID string
	// ExternalCloud: a cloud controller manager initializes the node.
	ExternalCloud bool
	// StatusUpdate is the interval of computing the node status, StatusReport the
	// interval of reporting it if it has not changed.
	StatusUpdate, StatusReport time.Duration
	// Lease is the duration of the node lease.
	Lease time.Duration
	// Images is the maximum number of images in the node status; -1 for no limit.
	Images int

	taints        []string
	cloudProvider string
	leaseSeconds  int
}

// The kubelet's defaults.
const (
	defaultStatusUpdate = 10 * time.Second
	defaultStatusReport = 5 * time.Minute
	defaultLease        = 40 // seconds
	defaultImages       = 50
)

func (o *Options) registrationSettings() []setting {
	r := &o.Cluster.Registration
	return []setting{
		{
			flag: "register-node", field: "registerNode", value: boolean(&r.Register, true), cluster: true,
			// registerNode: false is common in files of standalone kubelets.
			unasked: func() bool { return o.table.at(&r.Register).source == fromFile && !r.Register },
			shown:   func(RuntimeDefaults) any { return o.joins() && r.Register },
			help:    "register the node with the API server; otherwise the Node object must be created by an administrator",
		},
		{flag: "register-with-taints", field: "registerWithTaints",
			value: texts(&r.taints).reading(r.readTaints).as(func() any { return r.Taints }), check: r.checkTaints,
			cluster: true,
			help:    "`taints` of the node when it registers, as key=value:effect"},
		{flag: "provider-id", field: "providerID", value: text(&r.ProviderID, ""), cluster: true,
			help: "`ID` of this node at the cloud provider"},
		{flag: "cloud-provider", own: "cloudProvider", cluster: true,
			value: choice(&r.cloudProvider, "", ": %q: must be external, or empty for none; Kubernetes has no other providers "+
				"any more", "external"),
			check: func(*setting) { r.ExternalCloud = r.cloudProvider == "external" },
			help: "`provider` of cloud services: external if a cloud controller manager initializes the node and sets its " +
				"addresses; empty for none"},
		{field: "nodeStatusUpdateFrequency", value: duration(&r.StatusUpdate, defaultStatusUpdate), cluster: true,
			help: "interval of computing the node status (default 10s)"},
		{field: "nodeStatusReportFrequency", value: duration(&r.StatusReport, defaultStatusReport), cluster: true,
			help: "interval of reporting a node status that has not changed (default 5m0s)"},
		{field: "nodeLeaseDurationSeconds", value: integerOrDefault(&r.leaseSeconds, defaultLease, 4), cluster: true,
			check: func(*setting) { r.Lease = time.Duration(r.leaseSeconds) * time.Second },
			help:  "duration of the node lease in seconds (default 40)"},
		{field: "nodeStatusMaxImages", value: integer(&r.Images, defaultImages, -1, math.MaxInt32), cluster: true,
			help: "maximum number of images in the node status; -1 for no limit (default 50)"},
	}
}

// reportAsOftenAsUpdated: as in the kubelet, another update frequency also sets the report
// frequency unless that is set.
func (o *Options) reportAsOftenAsUpdated() {
	r := &o.Cluster.Registration
	if r.StatusUpdate != defaultStatusUpdate && !o.table.at(&r.StatusReport).isSet() {
		r.StatusReport = r.StatusUpdate
	}
}

func (r *Registration) readTaints(n node) bool {
	items, ok := n.items("[{key: a, value: b, effect: NoSchedule}]")
	r.Taints = []v1.Taint{}
	for _, item := range items {
		fields, _ := item.object("{key: a, effect: NoSchedule}", "key", "value", "effect", "timeAdded")
		if field, ok := fields["timeAdded"]; ok {
			field.ignore()
		}
		var t v1.Taint
		for name, to := range map[string]*string{"key": &t.Key, "value": &t.Value, "effect": (*string)(&t.Effect)} {
			if field, ok := fields[name]; ok {
				*to, _ = field.text()
			}
		}
		r.Taints = append(r.Taints, t)
	}
	return ok
}

func (r *Registration) checkTaints(s *setting) {
	for _, t := range r.Taints {
		if err := checkTaint(t); err != nil {
			s.fail(": %w", err)
		}
	}
	if len(r.taints) > 0 {
		r.Taints = nil
	}
	for _, text := range r.taints {
		t, err := parseTaint(text)
		if err != nil {
			s.fail(": %q: %w", text, err)
		}
		r.Taints = append(r.Taints, t)
	}
	seen := map[v1.Taint]bool{}
	for _, t := range r.Taints {
		same := v1.Taint{Key: t.Key, Effect: t.Effect}
		if seen[same] {
			s.table.failAt(both{s}, ": duplicate taint %s:%s; remove one", t.Key, t.Effect)
		}
		seen[same] = true
	}
}

func parseTaint(text string) (v1.Taint, error) {
	pair, effect, ok := strings.Cut(text, ":")
	key, value, _ := strings.Cut(pair, "=")
	t := v1.Taint{Key: key, Value: value, Effect: v1.TaintEffect(effect)}
	if !ok {
		return t, errors.New("must be key=value:effect")
	}
	return t, checkTaint(t)
}

func checkTaint(t v1.Taint) error {
	switch t.Effect {
	case v1.TaintEffectNoSchedule, v1.TaintEffectPreferNoSchedule, v1.TaintEffectNoExecute:
	default:
		return fmt.Errorf("effect %q: must be NoSchedule, PreferNoSchedule or NoExecute", t.Effect)
	}
	if msgs := validation.IsQualifiedName(t.Key); len(msgs) > 0 {
		return fmt.Errorf("key %q: %s", t.Key, strings.Join(msgs, "; "))
	}
	if msgs := validation.IsValidLabelValue(t.Value); len(msgs) > 0 {
		return fmt.Errorf("value %q: %s", t.Value, strings.Join(msgs, "; "))
	}
	return nil
}

// selfLabels are the labels in Kubernetes' domains that a node may set on itself according to
// the NodeRestriction admission plugin, a rule that the kubelet checks too.
var selfLabels = []string{
	v1.LabelHostname, v1.LabelOSStable, v1.LabelArchStable, "beta.kubernetes.io/os", "beta.kubernetes.io/arch",
	v1.LabelTopologyZone, v1.LabelTopologyRegion, v1.LabelFailureDomainBetaZone, v1.LabelFailureDomainBetaRegion,
	v1.LabelInstanceTypeStable, v1.LabelInstanceType,
}

// checkLabels validates the labels of a node that registers with a cluster.
func checkLabels(s *setting, labels map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		domain, _, _ := strings.Cut(name, "/")
		if !isSubdomain(domain, "kubernetes.io") && !isSubdomain(domain, "k8s.io") || slices.Contains(selfLabels, name) ||
			isSubdomain(domain, v1.LabelNamespaceSuffixKubelet) || isSubdomain(domain, v1.LabelNamespaceSuffixNode) {
			continue
		}
		s.fail(": %s: a node may not set this label on itself; remove it and let an administrator set it (kubectl label "+
			"node), "+
			"or use your own domain; in Kubernetes' domains only labels below node.kubernetes.io/ and kubelet.kubernetes.io/ "+
			"are allowed, and %s", name, strings.Join(selfLabels, ", "))
	}
}

// isSubdomain reports whether a domain is parent or below it.
func isSubdomain(domain, parent string) bool {
	return domain == parent || strings.HasSuffix(domain, "."+parent)
}

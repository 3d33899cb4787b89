package options

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/podstead/podstead/cmd/podstead/kubeletconfig"
)

// Registration says how the node shows itself in a cluster.
type Registration struct {
	// Register makes the node's object; without it somebody else does.
	Register bool
	// Taints and ProviderID are set when the node registers.
	Taints     []v1.Taint
	ProviderID string
	// StatusUpdate is the time between two looks at what the node is, and
	// StatusReport between two reports of it while nothing changes.
	StatusUpdate, StatusReport time.Duration
	// Lease is how long the node counts as alive after a word of it.
	Lease time.Duration
	// Images is how many images are shown; -1 is all.
	Images int

	taints []string
	// set are the fields of the config file that were set.
	set []string
}

// The kubelet's defaults.
const (
	defaultStatusUpdate = 10 * time.Second
	defaultStatusReport = 5 * time.Minute
	defaultLease        = 40 * time.Second
	defaultImages       = 50
)

func (r *Registration) addFlags(f *pflag.FlagSet) {
	f.BoolVar(&r.Register, "register-node", true, "make the node's object in the cluster; without it somebody else does")
	f.StringSliceVar(&r.taints, "register-with-taints", nil, "`taints` with which the node registers, as key=value:effect")
	f.StringVar(&r.ProviderID, "provider-id", "", "`id` that the cloud has for this machine")
	r.StatusUpdate, r.StatusReport, r.Lease, r.Images = defaultStatusUpdate, defaultStatusReport, defaultLease, defaultImages
}

// merge takes from the file what no flag says.
func (r *Registration) merge(c *kubeletconfig.Node, f *pflag.FlagSet) {
	take := func(field, flag string, set bool, apply func()) {
		if !set {
			return
		}
		r.set = append(r.set, field)
		if flag == "" || !f.Changed(flag) {
			apply()
		}
	}
	take("registerNode", "register-node", c.Register != nil, func() { r.Register = *c.Register })
	take("registerWithTaints", "register-with-taints", c.Taints != nil, func() { r.Taints = c.Taints })
	take("providerID", "provider-id", c.ProviderID != "", func() { r.ProviderID = c.ProviderID })
	take("nodeStatusUpdateFrequency", "", c.StatusUpdate != nil, func() {
		// The kubelet's: who asks for looks of another frequency and says nothing
		// of reports gets one for each.
		if r.StatusUpdate = *c.StatusUpdate; r.StatusUpdate != defaultStatusUpdate {
			r.StatusReport = r.StatusUpdate
		}
	})
	take("nodeStatusReportFrequency", "", c.StatusReport != nil, func() { r.StatusReport = *c.StatusReport })
	take("nodeLeaseDurationSeconds", "", c.LeaseSeconds != nil, func() { r.Lease = time.Duration(*c.LeaseSeconds) * time.Second })
	take("nodeStatusMaxImages", "", c.Images != nil, func() { r.Images = *c.Images })
}

// vain are the settings that mean nothing without a cluster.
func (r *Registration) vain(f *pflag.FlagSet) (names []string) {
	for _, field := range r.set {
		// What a machine without a cluster has in its file anyway.
		if field != "registerNode" || r.Register {
			names = append(names, field)
		}
	}
	for _, flag := range []string{"register-node", "register-with-taints", "provider-id"} {
		if f.Changed(flag) {
			names = append(names, "--"+flag)
		}
	}
	return names
}

func (r *Registration) check() error {
	var errs []error
	for _, t := range r.Taints {
		if err := checkTaint(t); err != nil {
			errs = append(errs, fmt.Errorf("registerWithTaints: %w", err))
		}
	}
	if len(r.taints) > 0 {
		r.Taints = nil
	}
	for _, text := range r.taints {
		t, err := parseTaint(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("--register-with-taints: %q: %w", text, err))
		}
		r.Taints = append(r.Taints, t)
	}
	seen := map[v1.Taint]bool{}
	for _, t := range r.Taints {
		same := v1.Taint{Key: t.Key, Effect: t.Effect}
		if seen[same] {
			errs = append(errs, fmt.Errorf("--register-with-taints (registerWithTaints): %s:%s is there twice; take one out", t.Key, t.Effect))
		}
		seen[same] = true
	}
	if r.StatusReport < r.StatusUpdate {
		errs = append(errs, fmt.Errorf("nodeStatusReportFrequency %s is less than nodeStatusUpdateFrequency %s: a report needs a look", r.StatusReport, r.StatusUpdate))
	}
	return errors.Join(errs...)
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
	if faults := validation.IsQualifiedName(t.Key); len(faults) > 0 {
		return fmt.Errorf("key %q: %s", t.Key, strings.Join(faults, "; "))
	}
	if faults := validation.IsValidLabelValue(t.Value); len(faults) > 0 {
		return fmt.Errorf("value %q: %s", t.Value, strings.Join(faults, "; "))
	}
	return nil
}

// ownLabels are those of Kubernetes that a node may set on itself, by the
// NodeRestriction admission of an API server, which the kubelet holds itself to.
var ownLabels = []string{
	v1.LabelHostname, v1.LabelOSStable, v1.LabelArchStable, "beta.kubernetes.io/os", "beta.kubernetes.io/arch",
	v1.LabelTopologyZone, v1.LabelTopologyRegion, v1.LabelFailureDomainBetaZone, v1.LabelFailureDomainBetaRegion,
	v1.LabelInstanceTypeStable, v1.LabelInstanceType,
}

// checkLabels judges the labels that the node asks a cluster for.
func checkLabels(labels map[string]string) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		domain, _, _ := strings.Cut(name, "/")
		if !within(domain, "kubernetes.io") && !within(domain, "k8s.io") || slices.Contains(ownLabels, name) ||
			within(domain, v1.LabelNamespaceSuffixKubelet) || within(domain, v1.LabelNamespaceSuffixNode) {
			continue
		}
		errs = append(errs, fmt.Errorf("--node-labels: %s: a cluster does not let a node set it on itself; take it out and let an administrator set it (kubectl label node), "+
			"or use a domain of your own; of Kubernetes' own there may be those below node.kubernetes.io/ and kubelet.kubernetes.io/, and %s", name, strings.Join(ownLabels, ", ")))
	}
	return errors.Join(errs...)
}

// within tells whether a domain is the other one or below it.
func within(domain, of string) bool { return domain == of || strings.HasSuffix(domain, "."+of) }

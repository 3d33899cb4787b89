package config

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

	"github.com/podstead/podstead/config/kubeletconfig"
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
	// set are the fields that the config file sets.
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
	f.BoolVar(&r.Register, "register-node", true, "register the node with the API server; otherwise the Node object must be created by an administrator")
	f.StringSliceVar(&r.taints, "register-with-taints", nil, "`taints` of the node when it registers, as key=value:effect")
	f.StringVar(&r.ProviderID, "provider-id", "", "`ID` of this node at the cloud provider")
	f.StringVar(&r.cloudProvider, "cloud-provider", "", "`provider` of cloud services: external if a cloud controller manager initializes the node and sets its addresses; empty for none")
	r.StatusUpdate, r.StatusReport, r.Lease, r.Images = defaultStatusUpdate, defaultStatusReport, defaultLease, defaultImages
}

// merge applies the settings of the file that no flag sets.
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
		// As in the kubelet, another update frequency also sets the report frequency
		// unless that is set.
		if r.StatusUpdate = *c.StatusUpdate; r.StatusUpdate != defaultStatusUpdate {
			r.StatusReport = r.StatusUpdate
		}
	})
	take("nodeStatusReportFrequency", "", c.StatusReport != nil, func() { r.StatusReport = *c.StatusReport })
	take("nodeLeaseDurationSeconds", "", c.LeaseSeconds != nil, func() { r.Lease = time.Duration(*c.LeaseSeconds) * time.Second })
	take("nodeStatusMaxImages", "", c.Images != nil, func() { r.Images = *c.Images })
}

// unused returns the settings that have no effect without a cluster.
func (r *Registration) unused(f *pflag.FlagSet) (names []string) {
	for _, field := range r.set {
		// registerNode: false is common in files of standalone kubelets.
		if field != "registerNode" || r.Register {
			names = append(names, field)
		}
	}
	for _, flag := range []string{"register-node", "register-with-taints", "provider-id", "cloud-provider"} {
		if f.Changed(flag) {
			names = append(names, "--"+flag)
		}
	}
	return names
}

func (r *Registration) check() error {
	var errs []error
	if r.ExternalCloud = r.cloudProvider == "external"; !r.ExternalCloud && r.cloudProvider != "" {
		errs = append(errs, fmt.Errorf("--cloud-provider: %q: must be external, or empty for none; Kubernetes has no other providers any more", r.cloudProvider))
	}
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
			errs = append(errs, fmt.Errorf("--register-with-taints (registerWithTaints): duplicate taint %s:%s; remove one", t.Key, t.Effect))
		}
		seen[same] = true
	}
	if r.StatusReport < r.StatusUpdate {
		errs = append(errs, fmt.Errorf("nodeStatusReportFrequency %s must not be less than nodeStatusUpdateFrequency %s", r.StatusReport, r.StatusUpdate))
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
func checkLabels(labels map[string]string) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		domain, _, _ := strings.Cut(name, "/")
		if !isSubdomain(domain, "kubernetes.io") && !isSubdomain(domain, "k8s.io") || slices.Contains(selfLabels, name) ||
			isSubdomain(domain, v1.LabelNamespaceSuffixKubelet) || isSubdomain(domain, v1.LabelNamespaceSuffixNode) {
			continue
		}
		errs = append(errs, fmt.Errorf("--node-labels: %s: a node may not set this label on itself; remove it and let an administrator set it (kubectl label node), "+
			"or use your own domain; in Kubernetes' domains only labels below node.kubernetes.io/ and kubelet.kubernetes.io/ are allowed, and %s", name, strings.Join(selfLabels, ", ")))
	}
	return errors.Join(errs...)
}

// isSubdomain reports whether a domain is parent or below it.
func isSubdomain(domain, parent string) bool {
	return domain == parent || strings.HasSuffix(domain, "."+parent)
}

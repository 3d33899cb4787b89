package config

import (
	"slices"
	"strings"

	"github.com/podstead/podstead/internal/imagepolicy"
)

// Cluster is the cluster to join. The zero value joins none.
type Cluster struct {
	// Kubeconfig is the kubeconfig of the API server; empty to join no cluster.
	Kubeconfig string
	Registration
	Certificates
	Rates Rates
	// Verification reports which images the cluster's pods may use without credentials. The
	// kubelet has no flag for it.
	Verification imagepolicy.Policy
}

func (o *Options) clusterSettings() []setting {
	c := &o.Cluster
	return slices.Concat([]setting{{
		flag: "kubeconfig", own: "kubeconfig", value: file(&c.Kubeconfig, ""),
		help: "kubeconfig `file` of the cluster to join: the node is registered there, its pods are shown as mirror pods, " +
			"and pods that the cluster binds to the node run here; empty joins no cluster",
	}}, c.Certificates.settings(), o.registrationSettings(), c.Rates.settings())
}

// joins reports whether the node joins a cluster. Without one, settings of the cluster are
// not in force.
func (o *Options) joins() bool { return o.Cluster.Kubeconfig != "" }

// always is for settings that ask for nothing of a cluster by themselves.
func always() bool { return true }

// clusterNotices returns a notice about the settings that have no effect without a cluster: fields
// of files, then flags.
func (o *Options) clusterNotices() []string {
	if o.joins() {
		return nil
	}
	var fields, flags []string
	for _, s := range o.table.rows {
		if !s.cluster || !s.isSet() || s.unasked != nil && s.unasked() {
			continue
		}
		if s.document != nil && s.document.Has(s.path()) {
			fields = append(fields, s.path())
		}
		if s.source == fromFlag {
			flags = append(flags, "--"+s.flag)
		}
	}
	if len(fields)+len(flags) == 0 {
		return nil
	}
	return []string{"these settings have no effect without --kubeconfig: " + strings.Join(append(fields, flags...), ", ")}
}

// checkCluster validates settings of the cluster that depend on others.
func (o *Options) checkCluster(t *table) {
	c := &o.Cluster
	c.Certificates.check(t, &c.Kubeconfig, &o.Remote, o.Paths.Root)
	if o.joins() && t.sound(&o.Policy.NodeLabels) {
		checkLabels(t.at(&o.Policy.NodeLabels), o.Policy.NodeLabels)
	}
	if update, report := t.at(&c.StatusUpdate), t.at(&c.StatusReport); c.StatusReport < c.StatusUpdate {
		t.fail("%s %s must not be less than %s %s", report, c.StatusReport, update, c.StatusUpdate)
	}
	if v := &c.Verification; len(v.Allowlist) > 0 && v.Mode != imagepolicy.NeverVerifyAllowlisted {
		mode := t.at(&v.Mode)
		t.fail("%s: has an effect only with %s: %s; set that too, or remove the list", t.at(&v.Allowlist), mode,
			imagepolicy.NeverVerifyAllowlisted)
	}
}

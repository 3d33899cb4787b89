package config

import (
	"errors"
	"slices"

	"github.com/spf13/pflag"

	"github.com/podstead/podstead/config/kubeletconfig"
	"github.com/podstead/podstead/internal/imagepolicy"
)

// Cluster is the cluster to join. The zero value joins none.
type Cluster struct {
	// Kubeconfig is the kubeconfig of the API server; empty to join no cluster.
	Kubeconfig string
	Registration
	Certificates
	Rates Rates
	// Verification says which images the cluster's pods may use without credentials. The
	// kubelet has no flag for it.
	Verification imagepolicy.Policy
}

func (c *Cluster) addFlags(f *pflag.FlagSet) {
	f.StringVar(&c.Kubeconfig, "kubeconfig", "", "kubeconfig `file` of the cluster to join: the node is registered there, its pods are shown as mirror pods, and pods that the cluster binds to the node run here; empty joins no cluster")
	c.Certificates.addFlags(f)
	c.Registration.addFlags(f)
	c.Rates.addFlags(f)
}

// merge applies the settings of the file that no flag sets.
func (c *Cluster) merge(from *kubeletconfig.Config, f *pflag.FlagSet) {
	c.Registration.merge(&from.Node, f)
	c.Rates.merge(&from.Rates, f)
	c.Certificates.merge(&from.Remote, f)
	c.Verification = imagepolicy.Policy{Mode: from.ImagePullCredentialsVerificationPolicy, Allowlist: from.PreloadedImagesVerificationAllowlist}
}

// unused returns the settings that have no effect without a cluster. Every pod may use
// every image then.
func (c *Cluster) unused(f *pflag.FlagSet) []string {
	all := slices.Concat(c.Registration.unused(f), c.Rates.unused(f))
	if c.Verification.Mode != "" && c.Verification.Mode != imagepolicy.NeverVerify {
		all = append(all, "imagePullCredentialsVerificationPolicy")
	}
	return all
}

// check validates the settings; labels are the node's labels.
func (c *Cluster) check(labels map[string]string, served *Remote, root string) error {
	errs := []error{c.Certificates.check(c.Kubeconfig, served, root)}
	if c.Kubeconfig != "" {
		errs = append(errs, checkLabels(labels))
	}
	return errors.Join(append(errs, c.Registration.check(), c.Rates.check())...)
}

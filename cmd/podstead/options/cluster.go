package options

import (
	"errors"

	"github.com/spf13/pflag"

	"github.com/podstead/podstead/cmd/podstead/kubeletconfig"
)

// Cluster says which cluster to join. Its zero value joins none.
type Cluster struct {
	// Kubeconfig is the file that leads to the API server; empty joins none.
	Kubeconfig string
	Registration
	Certificates
}

func (c *Cluster) addFlags(f *pflag.FlagSet) {
	f.StringVar(&c.Kubeconfig, "kubeconfig", "", "kubeconfig `file` of a cluster to join: the node and its pods are shown there, and what it binds to the node runs here; empty joins none")
	c.Certificates.addFlags(f)
	c.Registration.addFlags(f)
}

// merge takes from the file what no flag says.
func (c *Cluster) merge(from *kubeletconfig.Config, f *pflag.FlagSet) {
	c.Registration.merge(&from.Node, f)
	c.Certificates.merge(&from.Remote, f)
}

// check judges the settings; labels are the node's.
func (c *Cluster) check(labels map[string]string, served *Remote, root string) error {
	errs := []error{c.Certificates.check(c.Kubeconfig, served, root)}
	if c.Kubeconfig != "" {
		errs = append(errs, checkLabels(labels))
	}
	return errors.Join(append(errs, c.Registration.check())...)
}

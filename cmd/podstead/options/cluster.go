package options

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"
)

// Cluster says which cluster to join. Its zero value joins none.
type Cluster struct {
	// Kubeconfig is the file that leads to the API server; empty joins none.
	Kubeconfig string
	Registration
}

func (c *Cluster) addFlags(f *pflag.FlagSet) {
	f.StringVar(&c.Kubeconfig, "kubeconfig", "", "kubeconfig `file` of a cluster to join: the node and its pods are shown there, and what it binds to the node runs here; empty joins none")
	c.Registration.addFlags(f)
}

// check judges the settings; labels are the node's.
func (c *Cluster) check(labels map[string]string) error {
	var errs []error
	if c.Kubeconfig != "" {
		errs = append(errs, checkLabels(labels))
		if _, err := os.Stat(c.Kubeconfig); err != nil {
			errs = append(errs, fmt.Errorf("--kubeconfig: %w; leave the flag out to run without a cluster", err))
		}
	}
	return errors.Join(append(errs, c.Registration.check())...)
}

package options

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"
)

// Cluster says which cluster to join. Its zero value joins none.
type Cluster struct {
	// Kubeconfig is the file that leads to the API server; empty joins none.
	Kubeconfig string
	// Taints and ProviderID are set when the node registers.
	Taints     []v1.Taint
	ProviderID string

	taints []string
}

func (c *Cluster) addFlags(f *pflag.FlagSet) {
	f.StringVar(&c.Kubeconfig, "kubeconfig", "", "kubeconfig `file` of a cluster to join: the node and mirrors of its pods are shown there; empty joins none")
	f.StringSliceVar(&c.taints, "register-with-taints", nil, "`taints` with which the node registers, as key=value:effect")
	f.StringVar(&c.ProviderID, "provider-id", "", "`id` that the cloud has for this machine")
}

func (c *Cluster) check() error {
	var errs []error
	if c.Kubeconfig != "" {
		if _, err := os.Stat(c.Kubeconfig); err != nil {
			errs = append(errs, fmt.Errorf("--kubeconfig: %w; leave the flag out to run without a cluster", err))
		}
	}
	for _, text := range c.taints {
		t, err := parseTaint(text)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		c.Taints = append(c.Taints, t)
	}
	return errors.Join(errs...)
}

func parseTaint(text string) (v1.Taint, error) {
	pair, effect, ok := strings.Cut(text, ":")
	key, value, _ := strings.Cut(pair, "=")
	t := v1.Taint{Key: key, Value: value, Effect: v1.TaintEffect(effect)}
	switch t.Effect {
	case v1.TaintEffectNoSchedule, v1.TaintEffectPreferNoSchedule, v1.TaintEffectNoExecute:
	default:
		ok = false
	}
	if !ok || key == "" {
		return t, fmt.Errorf("--register-with-taints: %q: must be key=value:effect with an effect of NoSchedule, PreferNoSchedule or NoExecute", text)
	}
	return t, nil
}

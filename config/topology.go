package config

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/podstead/podstead/config/kubeletconfig"
	"github.com/podstead/podstead/node/cpus"
	"github.com/podstead/podstead/node/topology"
)

// Topology are the settings of the topology manager.
type Topology struct {
	// Policy is one of topology.Policies, and Scope one of its scopes.
	Policy, Scope string
	Options       topology.Options

	options map[string]string
}

func (t *Topology) addFlags(f *pflag.FlagSet) {
	f.StringVar(&t.Policy, "topology-manager-policy", topology.PolicyNone, "align the exclusive CPUs, memory and devices of containers to NUMA nodes: "+strings.Join(topology.Policies, ", "))
	f.StringVar(&t.Scope, "topology-manager-scope", topology.ScopeContainer, "container, or pod: align all containers of a pod to the same NUMA nodes")
	f.StringToStringVar(&t.options, "topology-manager-policy-options", nil, "`options` of the topology manager policy: prefer-closest-numa-nodes=true, max-allowable-numa-nodes=8")
}

// merge applies the settings of the file that no flag sets.
func (t *Topology) merge(file *kubeletconfig.Topology, take func(flag string, set bool, apply func())) {
	take("topology-manager-policy", file.Policy != "", func() { t.Policy = file.Policy })
	take("topology-manager-scope", file.Scope != "", func() { t.Scope = file.Scope })
	take("topology-manager-policy-options", file.Options != nil, func() { t.options = file.Options })
}

// check validates the settings, together with those of the CPU manager. root is that of
// Cgroups.checkHost.
func (t *Topology) check(c *CPUs, root string) (err error) {
	t.Policy, t.Scope = cmp.Or(t.Policy, topology.PolicyNone), cmp.Or(t.Scope, topology.ScopeContainer)
	if !slices.Contains(topology.Policies, t.Policy) {
		return fmt.Errorf("--topology-manager-policy: %q is not a policy; use %s", t.Policy, strings.Join(topology.Policies, ", "))
	}
	if t.Scope != topology.ScopeContainer && t.Scope != topology.ScopePod {
		return fmt.Errorf("--topology-manager-scope: %q is not a scope; use %s or %s", t.Scope, topology.ScopeContainer, topology.ScopePod)
	}
	if t.Policy == topology.PolicyNone && len(t.options) > 0 {
		return fmt.Errorf("--topology-manager-policy-options: have an effect only with a policy; set --topology-manager-policy, or remove the options")
	}
	if t.Options, err = topology.ParseOptions(t.options); err != nil {
		return fmt.Errorf("--topology-manager-policy-options: %w", err)
	}
	if c.Options.AlignBySocket && (t.Policy == topology.PolicyNone || t.Policy == topology.PolicySingleNUMANode) {
		return fmt.Errorf("--cpu-manager-policy-options: align-by-socket needs the topology manager policy %s or %s, and it is %s; set --topology-manager-policy, or remove the option", topology.PolicyBestEffort, topology.PolicyRestricted, t.Policy)
	}
	sys := filepath.Join(cmp.Or(root, "/"), "sys")
	if c.Options.AlignBySocket {
		if cpu, err := cpus.ReadTopology(sys); err == nil && cpu.SocketsSplitNodes() {
			return fmt.Errorf("--cpu-manager-policy-options: align-by-socket is not supported on this node: it has more sockets than NUMA nodes; remove the option")
		}
	}
	if t.Policy == topology.PolicyNone {
		return nil
	}
	nodes, err := topology.ReadNodes(sys)
	if err != nil {
		return fmt.Errorf("--topology-manager-policy: %w", err)
	}
	return topology.Check(t.Policy, t.Options, nodes)
}

// unused returns a notice about a scope without a policy.
func (t *Topology) unused() []string {
	if t.Policy != topology.PolicyNone || t.Scope != topology.ScopePod {
		return nil
	}
	return []string{"--topology-manager-scope=pod (topologyManagerScope) has no effect without --topology-manager-policy (topologyManagerPolicy)"}
}

// fields are those of a KubeletConfiguration.
func (t *Topology) fields() map[string]any {
	fields := map[string]any{"topologyManagerPolicy": t.Policy, "topologyManagerScope": t.Scope}
	if len(t.options) > 0 {
		fields["topologyManagerPolicyOptions"] = t.options
	}
	return fields
}

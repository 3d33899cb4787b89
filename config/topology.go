package config

import (
	"cmp"
	"path/filepath"
	"strings"

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

func (m *Topology) settings() []setting {
	return []setting{
		{
			flag: "topology-manager-policy", field: "topologyManagerPolicy",
			value: choice(&m.Policy, topology.PolicyNone, ": %q is not a policy; use "+strings.Join(topology.Policies, ", "),
				topology.Policies...),
			help: "align the exclusive CPUs, memory and devices of containers to NUMA " +
				"nodes: " + strings.Join(topology.Policies, ", "),
		},
		{
			flag: "topology-manager-scope", field: "topologyManagerScope",
			value: choice(&m.Scope, topology.ScopeContainer, ": %q is not a scope; use container or pod",
				topology.ScopeContainer, topology.ScopePod),
			help: "container, or pod: align all containers of a pod to the same NUMA nodes",
		},
		{flag: "topology-manager-policy-options", field: "topologyManagerPolicyOptions",
			value: pairs(&m.options, `{prefer-closest-numa-nodes: "true"}`),
			check: parsed(&m.options, &m.Options, topology.ParseOptions),
			help:  "`options` of the topology manager policy: prefer-closest-numa-nodes=true, max-allowable-numa-nodes=8"},
	}
}

// check validates the settings, together with those of the CPU manager. root is that of
// Cgroups.check.
func (m *Topology) check(t *table, c *CPUs, root string) {
	policy, options := t.at(&m.Policy), t.at(&m.options)
	if m.Policy == topology.PolicyNone && len(m.options) > 0 {
		t.fail("%s: have an effect only with a policy; set %s, or remove the options", options, policy)
	}
	sys := filepath.Join(cmp.Or(root, "/"), "sys")
	if c.Options.AlignBySocket {
		if m.Policy == topology.PolicyNone || m.Policy == topology.PolicySingleNUMANode {
			t.fail("%s: align-by-socket needs the topology manager policy %s or %s, and it is %s; set %s, or remove the "+
				"option", t.at(&c.options), topology.PolicyBestEffort, topology.PolicyRestricted, m.Policy, policy)
		}
		if cpu, err := cpus.ReadTopology(sys); err == nil && cpu.SocketsSplitNodes() {
			t.fail("%s: align-by-socket is not supported on this node: it has more sockets than NUMA nodes; remove the "+
				"option", t.at(&c.options))
		}
	}
	if m.Policy == topology.PolicyNone || policy.broken || options.broken {
		return
	}
	nodes, err := topology.ReadNodes(sys)
	if err != nil {
		t.fail("%s: %w", policy, err)
		return
	}
	if err := topology.CheckNodes(m.Policy, m.Options, nodes, options.String()); err != nil {
		t.fail("%s: %w", policy, err)
	} else if err := m.Options.CheckDistances(nodes); err != nil {
		t.fail("%s: %w", options, err)
	}
}

// unused returns a notice about a scope without a policy.
func (m *Topology) unused() []string {
	if m.Policy != topology.PolicyNone || m.Scope != topology.ScopePod {
		return nil
	}
	return []string{"--topology-manager-scope=pod (topologyManagerScope) has no effect without " +
		"--topology-manager-policy (topologyManagerPolicy)"}
}

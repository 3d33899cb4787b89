package config

import (
	"fmt"
	"strings"
	"testing"
)

// Faults of the topology manager's settings name file, line and field, and what to do.
func TestTopologySettings(t *testing.T) {
	split := map[string]string{"sys/devices/system/cpu/online": "0-1\n"}
	many := map[string]string{"sys/devices/system/cpu/online": "0\n"}
	for i := range 2 {
		split[fmt.Sprintf("sys/devices/system/cpu/cpu%d/topology/physical_package_id", i)] = fmt.Sprint(i)
	}
	for i := range 9 {
		many[fmt.Sprintf("sys/devices/system/node/node%d/cpulist", i)] = "\n"
	}
	const aligned = "cpuManagerPolicy: static\nreservedSystemCPUs: '0'\ncpuManagerPolicyOptions: {align-by-socket: " +
		"\"true\"}\n"
	for name, c := range map[string]struct {
		host         map[string]string
		fields, want string
	}{
		"policy": {nil, "topologyManagerPolicy: strict\n",
			`:3: topologyManagerPolicy: "strict" is not a policy; use none, best-effort, restricted, single-numa-node`},
		"scope": {nil, "topologyManagerScope: node\n",
			`:3: topologyManagerScope: "node" is not a scope; use container or pod`},
		"unused options": {nil, "topologyManagerPolicyOptions: {max-allowable-numa-nodes: \"9\"}\n",
			":3: topologyManagerPolicyOptions: have an effect only with a policy"},
		"option": {nil, "topologyManagerPolicy: restricted\ntopologyManagerPolicyOptions: {max: \"9\"}\n",
			`:4: topologyManagerPolicyOptions: "max" is not a supported option; use max-allowable-numa-nodes, prefer-closest-numa-nodes`},
		"few nodes": {nil, "topologyManagerPolicy: restricted\ntopologyManagerPolicyOptions: " +
			"{max-allowable-numa-nodes: \"7\"}\n",
			`:4: topologyManagerPolicyOptions: max-allowable-numa-nodes: "7" must be a number from 8 to 16`},
		"many nodes": {many, "topologyManagerPolicy: restricted\n", ":3: topologyManagerPolicy: restricted is not " +
			"supported on this node: it has 9 NUMA nodes, and max-allowable-numa-nodes is 8; raise it"},
		"more nodes": {many, "topologyManagerPolicy: restricted\ntopologyManagerPolicyOptions: " +
			"{max-allowable-numa-nodes: \"9\"}\n", ""},
		"no distances": {many, "topologyManagerPolicy: restricted\ntopologyManagerPolicyOptions: " +
			"{max-allowable-numa-nodes: \"9\", prefer-closest-numa-nodes: \"true\"}\n", ":4: topologyManagerPolicyOptions: " +
			"prefer-closest-numa-nodes is not supported on this node: the kernel does not report"},
		"sockets, none": {nil, aligned, ":5: cpuManagerPolicyOptions: align-by-socket needs the topology manager policy " +
			"best-effort or restricted, and it is none"},
		"sockets, single": {nil, aligned + "topologyManagerPolicy: single-numa-node\n",
			":5: cpuManagerPolicyOptions: align-by-socket needs the topology manager policy"},
		"sockets in nodes": {split, aligned + "topologyManagerPolicy: restricted\n", ":5: cpuManagerPolicyOptions: " +
			"align-by-socket is not supported on this node: it has more sockets than NUMA nodes"},
		"sockets": {nil, aligned + "topologyManagerPolicy: restricted\n", ""},
		"all":     {nil, "topologyManagerPolicy: single-numa-node\ntopologyManagerScope: pod\n", ""},
	} {
		host := testHost(t)
		if c.host != nil {
			host = files(t, c.host)
		}
		file, err := completeOn(t, host, c.fields)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), file+c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if _, notices, err := complete(t, "--topology-manager-scope=pod"); err != nil || len(notices) != 1 ||
		!strings.Contains(notices[0], "no effect without --topology-manager-policy") {
		t.Errorf("a scope without a policy: %v, %v", notices, err)
	}
}

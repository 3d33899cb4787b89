package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// Faults of the memory manager's settings name file, line and field, and what to do. The machine has
// 4Gi of memory on the NUMA node 0.
func TestMemoryManagerSettings(t *testing.T) {
	const (
		static = "memoryManagerPolicy: Static\n"
		hard   = "evictionHard: {memory.available: 100Mi}\nsystemReserved: {memory: 200Mi}\nkubeReserved: {memory: 50Mi}\n"
	)
	withoutCPUSet := map[string]string{"proc/meminfo": "MemTotal: 4194304 kB\n",
		"proc/self/mountinfo": "30 20 0:25 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"}
	for name, c := range map[string]struct {
		host         map[string]string
		fields, want string
	}{
		"policy": {nil, "memoryManagerPolicy: static\n",
			`:3: memoryManagerPolicy: "static" is not a policy; use None or Static`},
		"type": {nil, "reservedMemory: [{numaNode: 0, limits: {cpu: 1}}]\n",
			`:3: reservedMemory: NUMA node 0: "cpu" is no type of memory`},
		"no reserve": {nil, static,
			`:3: memoryManagerPolicy: Static requires --reserved-memory (reservedMemory): the total amount "0" of type "memory" is not equal to the value "100Mi" determined by Node Allocatable feature`},
		"sum": {nil, static + "reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}]\n" + hard,
			`:4: reservedMemory: the total amount "1Gi" of type "memory" is not equal to the value "350Mi" determined by Node Allocatable feature, which is systemReserved, kubeReserved and the threshold memory.available of evictionHard together; reserve that much on the NUMA nodes together, such as 0:memory=350Mi`},
		"percent": {nil, static + "reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}]\nevictionHard: " +
			"{memory.available: 25%}\n", ""},
		"no such": {nil, static + "reservedMemory: [{numaNode: 1, limits: {memory: 350Mi}}]\n" + hard,
			":4: reservedMemory: the reserved memory configuration references a NUMA node 1 that does not exist on this " +
				"machine; it has the NUMA nodes 0"},
		"kernel": {withoutCPUSet, static + "reservedMemory: [{numaNode: 0, limits: {memory: 350Mi}}]\n" + hard,
			":3: memoryManagerPolicy: Static is not supported on this node: the kernel's cpuset controller"},
		"no memory": {map[string]string{"proc/self/mountinfo": "\n"}, static,
			":3: memoryManagerPolicy: Static is not supported on this node: failed to read the memory of NUMA node 0"},
		"all":  {nil, static + "reservedMemory: [{numaNode: 0, limits: {memory: 350Mi}}]\n" + hard, ""},
		"None": {nil, "memoryManagerPolicy: None\nreservedMemory: []\n", ""},
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
	// A kernel that leaves less memory does not prevent the start.
	other := testHost(t)
	if err := os.WriteFile(filepath.Join(other, "proc/meminfo"), []byte("MemTotal: 4190208 kB\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	percent := static + "reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}]\nevictionHard: {memory.available: 25%}\n"
	if _, notices, err := noticesOn(t, other, percent); err != nil || len(notices) != 1 ||
		!strings.Contains(notices[0], "is 1073741824 bytes") || !strings.Contains(notices[0], "are 1072693248") {
		t.Errorf("percent of another capacity: %q (%v)", notices, err)
	}
	if _, notices, err := noticesOn(t, testHost(t), percent); err != nil || len(notices) > 0 {
		t.Errorf("percent of this capacity: %q (%v)", notices, err)
	}
	if _, notices, err := complete(t, "--reserved-memory=0:memory=1Gi"); err != nil || len(notices) != 1 ||
		!strings.Contains(notices[0], "no effect without --memory-manager-policy=Static") {
		t.Errorf("reserved memory without the policy: %v, %v", notices, err)
	}
	// The kubelet's forms of the flag.
	for _, flags := range [][]string{{"--reserved-memory=0:memory=1Gi;1:memory=2Gi"},
		{"--reserved-memory=0:memory=1Gi", "--reserved-memory", "1:memory=2Gi"}} {
		if o, _, err := complete(t, flags...); err != nil || o.MemoryManager.Reserved[0][v1.ResourceMemory] != 1<<30 ||
			o.MemoryManager.Reserved[1][v1.ResourceMemory] != 2<<30 {
			t.Errorf("%v: %v, %v", flags, o, err)
		}
	}
}

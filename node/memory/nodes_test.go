package memory

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// files creates the root of a file system.
func files(t *testing.T, contents map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range contents {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestReadNodes(t *testing.T) {
	const at = "sys/devices/system/node/"
	got, err := ReadNodes(files(t, map[string]string{
		at + "node0/meminfo": "Node 0 MemTotal:       1024 kB\nNode 0 MemFree: 1 kB\n",
		at + "node0/hugepages/hugepages-2048kB/nr_hugepages":    "3\n",
		at + "node0/hugepages/hugepages-1048576kB/nr_hugepages": "0\n",
		at + "node2/meminfo": "Node 2 MemTotal: 0 kB\n", at + "online": "0,2\n",
	}))
	if want := (Nodes{0: {v1.ResourceMemory: 1 << 20, "hugepages-2Mi": 6 << 20, big: 0},
		2: {v1.ResourceMemory: 0}}); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	got, err = ReadNodes(files(t, map[string]string{"proc/meminfo": "MemTotal:  2048 kB\n",
		"sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages": "1\n"}))
	if want := (Nodes{0: {v1.ResourceMemory: 2 << 20, "hugepages-2Mi": 2 << 20}}); err != nil ||
		!reflect.DeepEqual(got, want) {
		t.Errorf("without NUMA: %v, %v", got, err)
	}
	if _, err := ReadNodes(files(t, map[string]string{"proc/meminfo": "MemTotal: much\n"})); err == nil {
		t.Error("an invalid amount is accepted")
	}
	many := map[string]string{}
	for i := range 17 {
		many[fmt.Sprintf(at+"node%d/meminfo", i)] = "MemTotal: 1 kB\n"
	}
	if _, err := ReadNodes(files(t, many)); err == nil ||
		!strings.Contains(err.Error(), "17 NUMA nodes, and 16 are supported") {
		t.Error(err)
	}
}

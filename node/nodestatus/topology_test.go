package nodestatus

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

func TestTopology(t *testing.T) {
	root := t.TempDir()
	if cores, sockets := Topology(root); cores != 0 || sockets != 0 {
		t.Errorf("%d cores, %d sockets of an unknown host", cores, sockets)
	}
	// Two sockets of two cores with two threads each; one CPU is offline.
	for cpu := range 8 {
		dir := filepath.Join(root, fmt.Sprintf("sys/devices/system/cpu/cpu%d/topology", cpu))
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if cpu == 7 {
			continue
		}
		for file, n := range map[string]int{"physical_package_id": cpu / 4, "core_id": cpu / 2 % 2} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(fmt.Sprintln(n)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if cores, sockets := Topology(root); cores != 4 || sockets != 2 {
		t.Errorf("%d cores, %d sockets", cores, sockets)
	}
}

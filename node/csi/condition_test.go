package csi

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/sys/mountinfo"
	v1 "k8s.io/api/core/v1"
)

// A damaged record of CSI volumes is a condition of the node until it is repaired.
func TestNodeConditions(t *testing.T) {
	file := filepath.Join(t.TempDir(), "csi-volumes.json")
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	manager := New(Options{
		Dir: t.TempDir(), File: file, BootID: "boot",
		Mounts: func() ([]*mountinfo.Info, error) { return nil, errors.New("mounts are unknown") },
	})
	read := manager.NodeConditions
	damaged := read()
	if len(damaged) != 1 || damaged[0].Type != ConditionUnreadable || damaged[0].Status != v1.ConditionTrue ||
		!strings.Contains(damaged[0].Message, file) {
		t.Fatalf("a damaged record: %+v", damaged)
	}
	if again := read(); len(again) != 1 || !again[0].LastTransitionTime.Equal(&damaged[0].LastTransitionTime) {
		t.Errorf("the condition changes while nothing does: %+v", again)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if repaired := read(); len(repaired) != 0 {
		t.Errorf("a repaired record: %+v", repaired)
	}
}

package config

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestStatsSettings(t *testing.T) {
	if o, _, err := complete(t); err != nil || o.Stats.DiskAge != time.Minute {
		t.Errorf("default %v, %v", o.Stats, err)
	}
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: "+
		"KubeletConfiguration\nvolumeStatsAggPeriod: 3s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if o, notices, err := complete(t, "--config", file); err != nil || o.Stats.DiskAge != 3*time.Second ||
		len(notices) > 0 {
		t.Errorf("from the file %v, %v, %v", o.Stats, notices, err)
	}
	if o, _, err := complete(t, "--config", file, "--volume-stats-agg-period=2s"); err != nil ||
		o.Stats.DiskAge != 2*time.Second {
		t.Errorf("from the flag %v, %v", o.Stats, err)
	}
	if _, _, err := complete(t, "--volume-stats-agg-period=-1s"); err == nil {
		t.Error("a negative age is accepted")
	}
}

package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestGarbageSettings(t *testing.T) {
	o, _, err := complete(t)
	if g := o.Garbage; err != nil || g.LogMaxSize != 10<<20 || g.LogMaxFiles != 5 || g.PodLogsMax != 0 ||
		g.ImageHigh != 85 || g.ImageLow != 80 ||
		g.ImageMinAge != 2*time.Minute || g.ImageMaxAge != 0 || g.ImagePeriod != 5*time.Minute || g.MaxPerContainer != 1 ||
		g.MaxContainers != -1 || g.ContainerMinAge != 0 {
		t.Errorf("defaults are %+v %v", g, err)
	}
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerLogMaxSize: 50M
containerLogMaxFiles: 3
imageGCHighThresholdPercent: 70
imageGCLowThresholdPercent: 60
imageMinimumGCAge: 1m
imageMaximumGCAge: 24h
`), 0o600); err != nil {
		t.Fatal(err)
	}
	o, notices, err := complete(t, "--config", file, "--image-gc-high-threshold", "65")
	if g := o.Garbage; err != nil || len(notices) > 0 || g.LogMaxSize != 50_000_000 || g.LogMaxFiles != 3 ||
		g.ImageHigh != 65 || g.ImageLow != 60 ||
		g.ImageMinAge != time.Minute || g.ImageMaxAge != 24*time.Hour {
		t.Errorf("from the file %+v %v %v", g, notices, err)
	}
	for _, c := range []struct{ args, want string }{
		{"--container-log-max-size=ten", `--container-log-max-size: "ten" is not a valid size`},
		{"--container-log-max-files=1", "must be at least 2"},
		{"--pod-logs-max-size=-1", "--pod-logs-max-size=-1"},
		{"--image-gc-high-threshold=80 --image-gc-low-threshold=80",
			"the low threshold must be less than the high threshold"},
		{"--image-gc-high-threshold=101", "must be percentages"},
		{"--image-gc-period=0s", "--image-gc-period=0s"},
		{"--maximum-image-ttl-duration=1m", "--maximum-image-ttl-duration=1m0s"},
		{"--minimum-container-ttl-duration=-1s", "must not be negative"},
	} {
		if _, _, err := complete(t, strings.Fields(c.args)...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.args, err, c.want)
		}
	}
}

package config

import (
	"path/filepath"
	"strings"
	"testing"
)

// All faults are reported at once, whatever finds them: fields that cannot be read, values that are
// not valid, settings that exclude one another or that this host cannot honour, in files and by flags.
// A fault that only follows from another one is not reported.
func TestAllFaultsAreReportedAtOnce(t *testing.T) {
	dir := files(t, map[string]string{
		"config.yaml": kubeletHead + `maxPods: many
staticPodPaht: /x
cgroupDriver: runc
imageGCHighThresholdPercent: 70
imageGCLowThresholdPercent: 75
evictionSoft: {memory.available: 1Gi}
memorySwap: {swapBehavior: LimitedSwap}
memoryManagerPolicy: Static
systemReserved: {cpu: lots}
tlsCertFile: /x
---
` + ownHead + "imageGCPeriod: 1ms\nnodeLabels: {a b: c}\nlogFormat: xml\n",
		"config.d/1.conf": kubeletHead + "maxPods: 5\nhealthzPort: 70000\nqosReserved: {memory: 50%}\n",
	})
	_, _, err := complete(t, "--config="+filepath.Join(dir, "config.yaml"), "--config-dir="+filepath.Join(dir, "config.d"),
		"--node-ip=x", "--enable-server=false", "--shutdown-grace-period=2h")
	if err == nil {
		t.Fatal("no error")
	}
	var got []string
	for line := range strings.SplitSeq(strings.ReplaceAll(err.Error(), dir, ""), "\n") {
		name, _, _ := strings.Cut(strings.TrimPrefix(line, "/config"), ": must ")
		parts := strings.SplitN(name, " ", 3)
		got = append(got, strings.Join(parts[:min(2, len(parts))], " "))
	}
	want := []string{
		"--enable-server=false: is", "--node-ip: \"x\"", "--shutdown-grace-period=2h0m0s",
		".yaml:3: maxPods:", ".yaml:4: staticPodPaht:", ".yaml:5: cgroupDriver", ".yaml:6: imageGCHighThresholdPercent=70",
		".yaml:8: evictionSoft:", ".yaml:9: memorySwap:", ".yaml:11: systemReserved:", ".yaml:12: tlsCertFile",
		".yaml:16: imageGCPeriod=1ms", ".yaml:17: nodeLabels:", ".yaml:18: logFormat=\"xml\"",
		".d/1.conf:4: healthzPort:", ".d/1.conf:5: qosReserved:",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s\nof\n%v", strings.Join(got, "\n"), strings.Join(want, "\n"), err)
	}
}

// A value that is none of the choices is an error also if a later file replaces it: the day that file is removed, the
// daemon would not start.
func TestChoicesOfEachFile(t *testing.T) {
	if _, err := completeFiles(t, "manifestValidation: lenient\n", "manifestValidation: warn\n"); err == nil ||
		!strings.Contains(err.Error(), "manifestValidation: ") || !strings.Contains(err.Error(), "lenient") {
		t.Errorf("an overridden value: %v", err)
	}
}

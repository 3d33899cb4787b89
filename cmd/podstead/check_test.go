package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podstead/podstead/cli"
)

// check reports the errors of the configuration files as run does, and exits with 1.
func TestCheckConfigFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte("apiVersion: podstead.io/v1alpha1\nkind: PodsteadConfiguration\n"+text),
			0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("rootdir: /x\ndebug: 1\n")
	_, runErr := execute("podstead", "run", "--config", file)
	if cli.Code(runErr) != cli.ExitUsage {
		t.Errorf("run: %v", runErr)
	}
	out, err := execute("podstead", "check", "--config", file)
	if cli.Code(err) != cli.ExitFailed || !strings.Contains(out, "2 failed, 0 warnings, 0 ok") {
		t.Errorf("check: %v\n%s", err, out)
	}
	for line := range strings.SplitSeq(runErr.Error(), "\n") {
		if !strings.Contains(out, line) || !strings.HasPrefix(line, file+":") {
			t.Errorf("check does not print %q:\n%s", line, out)
		}
	}
	write("manifestValidation: lenient\n")
	if out, err := execute("podstead", "check", "--config", file); cli.Code(err) != cli.ExitFailed ||
		!strings.Contains(out, "fail  configuration  "+file+":3: manifestValidation: ") {
		t.Errorf("an invalid value: %v\n%s", err, out)
	}
	if _, err := execute("podstead", "check", "--config", file, "--image-gc-period=1ms"); err == nil {
		t.Error("an invalid file and an invalid flag are accepted")
	}
	write("---\napiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncgroupsPerQOS: false\n")
	if out, err := execute("podstead", "check", "--config", file); cli.Code(err) != cli.ExitFailed ||
		!strings.Contains(out, "fail  configuration  "+file+":6: cgroupsPerQOS: false is not supported: ") {
		t.Errorf("a field about resources: %v\n%s", err, out)
	}
	write("debug: true\n")
	if _, err := execute("podstead", "check", "--config", file, "--image-gc-period=1ms"); cli.Code(err) != cli.ExitUsage {
		t.Errorf("an invalid flag: %v", err)
	}
	out, _ = execute("podstead", "check", "--config", file, "--root-dir", t.TempDir())
	if !strings.Contains(out, "ok    configuration ") || !strings.Contains(out, file+"\n") {
		t.Errorf("a valid file:\n%s", out)
	}
}

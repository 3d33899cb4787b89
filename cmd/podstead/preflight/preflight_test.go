package preflight

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCheckKubelet(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "run"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, "run"), filepath.Join(dir, "varrun")); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "kubelet.yaml")
	if err := os.WriteFile(config, []byte("containerRuntimeEndpoint: unix:///run/crio/crio.sock\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		cmdline  []string
		endpoint string
		conflict bool
	}{
		"default":                  {[]string{"/usr/bin/kubelet", "--v=2"}, "unix:///run/containerd/containerd.sock", true},
		"another runtime":          {[]string{"/usr/bin/kubelet"}, "unix:///run/podstead/containerd/containerd.sock", false},
		"flag with =":              {[]string{"kubelet", "--container-runtime-endpoint=unix:///run/crio/crio.sock"}, "unix:///run/crio/crio.sock", true},
		"flag with separate value": {[]string{"kubelet", "--container-runtime-endpoint", "/run/crio/crio.sock"}, "unix:///run/crio/crio.sock", true},
		"flag beats config":        {[]string{"kubelet", "--config", config, "--container-runtime-endpoint", "/x"}, "unix:///run/crio/crio.sock", false},
		"config":                   {[]string{"kubelet", "--config=" + config}, "unix:///run/crio/crio.sock", true},
		"through a symlink":        {[]string{"kubelet", "--container-runtime-endpoint=unix://" + dir + "/varrun/c.sock"}, "unix://" + dir + "/run/c.sock", true},
		"not a kubelet":            {[]string{"/usr/bin/vi", "kubelet"}, "unix:///run/containerd/containerd.sock", false},
		"a value, not a flag":      {[]string{"kubelet", "container-runtime-endpoint", "/y"}, "unix:///run/containerd/containerd.sock", true},
	} {
		t.Run(name, func(t *testing.T) {
			proc := t.TempDir()
			for pid, args := range map[string][]string{"1": {"init"}, "42": c.cmdline} {
				if err := os.Mkdir(filepath.Join(proc, pid), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(proc, pid, "cmdline"), []byte(strings.Join(args, "\x00")+"\x00"), 0o444); err != nil {
					t.Fatal(err)
				}
			}
			err := CheckKubelet(proc, c.endpoint)
			var conflict *KubeletError
			if got := errors.As(err, &conflict); got != c.conflict {
				t.Fatalf("CheckKubelet = %v, want a conflict: %v", err, c.conflict)
			}
			if c.conflict && (conflict.PID != 42 || !strings.Contains(err.Error(), c.endpoint)) {
				t.Errorf("the error does not name process and runtime: %v", err)
			}
		})
	}
}

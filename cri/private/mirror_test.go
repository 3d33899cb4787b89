package private

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// newMirrorTestbed returns a private containerd whose config is written, with
// registry files that an administrator wrote.
func newMirrorTestbed(t *testing.T, existing map[string]string) (*Containerd, Config) {
	t.Helper()
	cfg := testbed(t)
	if err := cfg.prepare(); err != nil {
		t.Fatal(err)
	}
	for name, text := range existing {
		path := filepath.Join(cfg.CertsDir(), name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return New(cfg, "", slog.New(slog.DiscardHandler)), cfg
}

func TestMirror(t *testing.T) {
	const ours = "[host.\"http://127.0.0.1:1\"]\n  capabilities = [\"pull\", \"resolve\"]\n  " +
		"[host.\"http://127.0.0.1:1\".header]\n    X-Token = \"word\"\n"
	const mirror = "[host.\"https://mirror\"]\n  ca = \"ca.crt\"\n"
	for name, c := range map[string]struct {
		existing  map[string]string
		host, dir string
		want      string
		files     string
	}{
		"nothing there": {host: "docker.io", dir: "docker.io", want: ours, files: "hosts.toml"},
		"a port":        {host: "r.test:5000", dir: "r.test_5000_", want: ours, files: "hosts.toml"},
		"existing": {existing: map[string]string{"docker.io/hosts.toml": "server = \"https://up\"\n\n" + mirror,
			"docker.io/ca.crt": "x"}, host: "docker.io", dir: "docker.io", want: "server = \"https://up\"\n\n" + ours + mirror,
			files: "ca.crt hosts.toml"},
		"existing default": {existing: map[string]string{"_default/hosts.toml": mirror,
			"quay.io/hosts.toml": "server = \"no\""}, host: "docker.io", dir: "docker.io", want: ours + mirror,
			files: "hosts.toml"},
		"existing, a port": {existing: map[string]string{"r.test:5000/hosts.toml": "server = \"http://up\""},
			host: "r.test:5000", dir: "r.test_5000_", want: "server = \"http://up\"\n" + ours, files: "hosts.toml"},
		"certificates": {existing: map[string]string{"docker.io/ca.crt": "x"}, host: "docker.io", dir: "docker.io",
			want: ours, files: "ca.crt hosts.toml"},
	} {
		t.Run(name, func(t *testing.T) {
			own, cfg := newMirrorTestbed(t, c.existing)
			withdraw, err := own.AddMirror(c.host, Mirror{URL: "http://127.0.0.1:1", Header: "X-Token", Value: "word"})
			if err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(cfg.registryLink(), c.dir)
			for name, text := range c.existing {
				if others := filepath.Dir(name); others == c.host {
					continue
				}
				if got, err := os.ReadFile(filepath.Join(cfg.registryLink(), name)); err != nil || string(got) != text {
					t.Errorf("while the mirror is on, %s is %q %v", name, got, err)
				}
			}
			got, err := os.ReadFile(filepath.Join(dir, "hosts.toml"))
			if err != nil || string(got) != c.want {
				t.Errorf("hosts.toml is %v\n%s\nwant\n%s", err, got, c.want)
			}
			if info, err := os.Stat(filepath.Join(dir, "hosts.toml")); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("the token may be read by others: %v %v", info, err)
			}
			var names []string
			entries, _ := os.ReadDir(dir)
			for _, e := range entries {
				names = append(names, e.Name())
			}
			if strings.Join(names, " ") != c.files {
				t.Errorf("files are %v, want %s", names, c.files)
			}
			if strings.Contains(c.files, "ca.crt") {
				if text, err := os.ReadFile(filepath.Join(dir, "ca.crt")); err != nil || string(text) != "x" {
					t.Errorf("ca.crt is %q %v", text, err)
				}
			}
			withdraw()
			if _, err := os.Stat(cfg.mirrorDir()); !os.IsNotExist(err) {
				t.Errorf("the file remains: %v", err)
			}
			for name, text := range c.existing {
				if got, err := os.ReadFile(filepath.Join(cfg.registryLink(), name)); err != nil || string(got) != text {
					t.Errorf("%s is %q %v", name, got, err)
				}
			}
		})
	}
}

// A containerd that an earlier podstead started does not look for the mirror;
// files that a killed daemon left are removed when the next one starts.
func TestMirrorOfAnotherDaemon(t *testing.T) {
	own, cfg := newMirrorTestbed(t, nil)
	if _, err := own.AddMirror("docker.io", Mirror{}); err != nil {
		t.Fatal(err)
	}
	if err := cfg.prepare(); err != nil {
		t.Fatal(err)
	}
	if to, err := os.Readlink(cfg.registryLink()); err != nil || to != cfg.CertsDir() {
		t.Errorf("the settings of registries are %s: %v", to, err)
	}
	if err := os.WriteFile(cfg.file(), []byte("version = 2"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := own.AddMirror("docker.io", Mirror{}); err == nil || !strings.Contains(err.Error(), "stop it once") {
		t.Errorf("got %v", err)
	}
}

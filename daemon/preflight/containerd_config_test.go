package preflight

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The commands change what they name and nothing else, however the file is written.
func TestContainerdConfigEdits(t *testing.T) {
	restrict := func(c containerdConfig) string { return c.set("restrict_oom_score_adj", "true") }
	driver := func(c containerdConfig) string { edit, _ := c.setCgroupDriver(true); return edit }
	const options = `[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]`
	for name, c := range map[string]struct {
		edit       func(containerdConfig) string
		text, want string
	}{
		"no file": {restrict, "",
			"version = 2\n[plugins.\"io.containerd.grpc.v1.cri\"]\nrestrict_oom_score_adj = true\n"},
		"a set key": {restrict, "version = 2\n\trestrict_oom_score_adj = false # default\nx = 1\n",
			"version = 2\n\trestrict_oom_score_adj = true\nx = 1\n"},
		"a comment": {restrict, "version = 4\n# restrict_oom_score_adj = false\n",
			"version = 4\n# restrict_oom_score_adj = false\n\n[plugins.\"io.containerd.cri.v1.runtime\"]\n" +
				"restrict_oom_score_adj = true\n"},
		"a table": {restrict, "version = 2\n[plugins]\n  [plugins.\"io.containerd.grpc.v1.cri\"]\n    x = 1\n" + options +
			"\n",
			"version = 2\n[plugins]\n  [plugins.\"io.containerd.grpc.v1.cri\"]\nrestrict_oom_score_adj = true\n    x = 1\n" +
				options + "\n"},
		"a table with other quotes": {restrict, "version=3\n[plugins.'io.containerd.cri.v1.runtime']\n",
			"version=3\n[plugins.'io.containerd.cri.v1.runtime']\nrestrict_oom_score_adj = true\n"},
		"only a table below it": {restrict, "version = 2\n" + options,
			"version = 2\n" + options + "\n[plugins.\"io.containerd.grpc.v1.cri\"]\nrestrict_oom_score_adj = true\n"},
		"version 1": {restrict, "root = \"/x\"\n[plugins.cri]\n",
			"root = \"/x\"\n[plugins.cri]\nrestrict_oom_score_adj = true\n"},
		"the driver, version 4": {driver, "version = 4\n",
			"version = 4\n\n[plugins.\"io.containerd.cri.v1.runtime\".containerd.runtimes.runc]\nruntime_type = " +
				"\"io.containerd.runc.v2\"\n[plugins.\"io.containerd.cri.v1.runtime\".containerd.runtimes.runc.options]\n" +
				"SystemdCgroup = true\n"},
		"the driver, set": {driver, "version = 2\n" + options + "\n  SystemdCgroup=false\n",
			"version = 2\n" + options + "\n  SystemdCgroup = true\n"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "containerd", "config.toml")
			if c.text != "" {
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			command := c.edit(containerdConfig{path, c.text})
			if out, err := exec.Command("sh", "-c", command).CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", command, err, out)
			}
			if got, _ := os.ReadFile(path); string(got) != c.want {
				t.Errorf("%s\ngot\n%s\nwant\n%s", command, got, c.want)
			}
		})
	}
	// Appended, this could be a table that is there already.
	for _, text := range []string{"version = 3\n[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]\n",
		"x = 1\n"} {
		if edit, done := (containerdConfig{"/x", text}).setCgroupDriver(true); done ||
			!strings.HasPrefix(edit, "SystemdCgroup") {
			t.Errorf("%q: %s", text, edit)
		}
	}
}

// The sandbox image is found in what containerd 2 prints, and only in the table of images that it keeps.
func TestPinnedSandbox(t *testing.T) {
	for config, want := range map[string]string{
		"version = 3\n[plugins]\n  [plugins.'io.containerd.cri.v1.images'.pinned_images]\n    sandbox = " +
			"'example.com/pause:3.10'\n": "example.com/pause:3.10",
		"[plugins.\"io.containerd.cri.v1.images\".pinned_images]\nother = \"a\"\nsandbox=\"pause:1\"\n": "pause:1",
		"[plugins.'io.containerd.cri.v1.images'.pinned_images]\n[x]\nsandbox = 'a'\n":                   "",
		"[x]\nsandbox = 'a'\n": "", "": "",
	} {
		if got := pinnedSandbox(config); got != want {
			t.Errorf("%q in %s, want %q", got, config, want)
		}
	}
}

// The program of a process that runs in other namespaces, or for another user, is not run again.
func TestContainerdDumpOfUnknownProcess(t *testing.T) {
	if text := containerdDump(t.Context(), 0); text != "" {
		t.Errorf("%q of no process", text)
	}
}

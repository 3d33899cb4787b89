package manifest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/internal/unwritten"
)

func TestResolveNodeName(t *testing.T) {
	root := filepath.Join(t.TempDir(), "root")
	settle := func(flag, host string) (string, string, error) {
		return ResolveNodeName(root, flag, func() (string, error) {
			if host == "" {
				return "", errors.New("no hostname")
			}
			return host, nil
		}, statefile.Disk{})
	}
	for _, step := range []struct {
		about, flag, host    string
		name, warning, fails string
	}{
		{"no name", "", "", "", "", "--hostname-override=NAME"},
		{"an invalid hostname", "", "my_host", "", "", `"my_host"`},
		{"an invalid flag", "my_host", "host", "", "", "--hostname-override=\"my_host\""},
		{"first start", "", " Host.Example.COM\n", "host.example.com", "", ""},
		{"later start", "", "host.example.com", "host.example.com", "", ""},
		{"renamed host", "", "other", "host.example.com", "podstead run --hostname-override=other", ""},
		{"still renamed", "", "other", "host.example.com", `this node keeps the name "host.example.com"`, ""},
		{"unknown hostname", "", "", "host.example.com", "", ""},
		{"flag", "Edge-1", "other", "edge-1", "", ""},
		{"saved flag", "", "other", "edge-1", `hostname is now "other"`, ""},
	} {
		name, warning, err := settle(step.flag, step.host)
		if name != step.name || !strings.Contains(warning, step.warning) || step.warning == "" && warning != "" {
			t.Errorf("%s: name %q, warning %q", step.about, name, warning)
		}
		if (err != nil) != (step.fails != "") || err != nil && !strings.Contains(err.Error(), step.fails) {
			t.Errorf("%s: error %v", step.about, err)
		}
	}

	// A damaged file is no reason to guess, but the flag repairs it.
	path := filepath.Join(root, nodeNameFile)
	if err := os.WriteFile(path, []byte("\x00\x00"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := settle("", "host"); err == nil || !strings.Contains(err.Error(), path) ||
		!strings.Contains(err.Error(), "--hostname-override") {
		t.Errorf("error is %v", err)
	}
	if name, _, err := settle("edge-1", "host"); name != "edge-1" || err != nil {
		t.Errorf("resolved %q, %v", name, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("mode is %v, %v", info.Mode(), err)
	}
}

func TestResolveNodeNameNotWritable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	// With the root directory in a file the stored name cannot even be read.
	if _, _, err := ResolveNodeName(file, "", nil, statefile.Disk{}); err == nil {
		t.Error("resolved without reading the stored name")
	}
	files := unwritten.New()
	name, _, err := ResolveNodeName(file, "host", nil, statefile.Disk{Unwritten: files})
	if name != "host" || err != nil {
		t.Errorf("resolved %q, %v", name, err)
	}
	if list := files.List(); len(list) != 1 || list[0].Path != filepath.Join(file, nodeNameFile) {
		t.Errorf("the name that is not stored is not recorded: %v", list)
	}
}

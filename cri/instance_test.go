package cri

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestInstanceIsPinned: with another value, all running pods would become
// foreign.
func TestInstanceIsPinned(t *testing.T) {
	const machine = "0123456789abcdef0123456789abcdef"
	if got := Instance(machine, "/nowhere/podstead"); got != "08ceaed814f5ce5b" {
		t.Errorf("instance is %s", got)
	}
	if got := Instance(machine, "/nowhere/podstead"); !regexp.MustCompile(`^[0-9a-f]{16}$`).MatchString(got) {
		t.Errorf("instance is %s", got)
	}
}

func TestInstance(t *testing.T) {
	dir := t.TempDir()
	const machine = "0123456789abcdef0123456789abcdef"
	root := filepath.Join(dir, "data", "podstead")
	before := Instance(machine, root) // not there yet
	if err := os.MkdirAll(root, 0o700); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{
		"abs": filepath.Join(dir, "data"), "rel": "data", "whole": "data/podstead", "up": "data/../data",
		"chain": "abs/podstead", "loop": "loop",
	} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	same := map[string]string{
		"it is there":       root,
		"slashes":           dir + "//data/./podstead/",
		"dots":              root + "/../podstead",
		"absolute link":     dir + "/abs/podstead",
		"relative link":     dir + "/rel/podstead",
		"link to the root":  dir + "/whole",
		"link through ..":   dir + "/up/podstead",
		"link to a link":    dir + "/chain",
		"machine-id's line": root,
	}
	check := func(when string) {
		for name, path := range same {
			if got := Instance(machine+"\n", path); got != before {
				t.Errorf("%s, %s: %s, want %s", when, name, got, before)
			}
		}
	}
	check("whole")
	if err := os.RemoveAll(filepath.Join(dir, "data")); err != nil {
		t.Fatal(err)
	}
	check("wiped")

	for name, other := range map[string]string{
		"another root":    Instance(machine, dir+"/data/other"),
		"another machine": Instance("1123456789abcdef0123456789abcdef", root),
		"the parent":      Instance(machine, dir+"/data"),
		"a link's loop":   Instance(machine, dir+"/loop/podstead"),
	} {
		if other == before {
			t.Errorf("%s has the same instance", name)
		}
	}
}

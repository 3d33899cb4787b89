package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// Packages are upgraded in the order of the versions, pre-releases and commits included.
func TestPackageVersion(t *testing.T) {
	for version, want := range map[string]string{
		"v0.1.0": "0.1.0", "v0.1.0-rc.1": "0.1.0~rc.1", "v0.1.0-5-g0123abc": "0.1.0+5.g0123abc",
		"v0.1.0-rc.1-2-g0123abc-dirty": "0.1.0~rc.1+2.g0123abc.dirty", "v0.1.0-dirty": "0.1.0+dirty",
		"0123abc-dirty": "0~19700101000001.0123abc.dirty",
	} {
		if got := packageVersion(version, time.Unix(1, 0).UTC()); got != want {
			t.Errorf("%s: %s, want %s", version, got, want)
		}
	}
	dpkg, err := exec.LookPath("dpkg")
	if err != nil {
		return // the order is dpkg's; make test runs where it is
	}
	order := []string{"0123abc", "v0.1.0-rc.1", "v0.1.0-rc.1-2-g0123abc", "v0.1.0", "v0.1.0-5-g0123abc", "v0.1.1-rc.1"}
	for i := 1; i < len(order); i++ {
		a, b := packageVersion(order[i-1], time.Unix(1, 0)), packageVersion(order[i], time.Unix(1, 0))
		if err := exec.Command(dpkg, "--compare-versions", a, "lt", b).Run(); err != nil {
			t.Errorf("%s is not less than %s: %v", a, b, err)
		}
	}
}

// Every dependency has a permissive licence; others are an error that names them.
func TestLicenses(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string
		fault      string
	}{
		{"LICENSE", "Apache License\n  Version 2.0, January 2004", []string{"Apache-2.0"}, ""},
		{"LICENSE", "Redistribution and use in source and\nbinary forms ... Neither the name", []string{"BSD-3-Clause"}, ""},
		{"LICENSE", "Redistribution and use in source and binary forms", []string{"BSD-2-Clause"}, ""},
		{"COPYING", "GNU General Public License\nversion 2", nil, "GPL"},
		{"LICENSE", "Mozilla Public License, version 2.0", nil, "MPL"},
		{"LICENSE", "do what you want", nil, "no known licence"},
		{"NOTICE", "made by its author", nil, "there is no licence"},
	} {
		got, err := licensesOf(map[string][]byte{c.name: []byte(c.text)})
		if !slices.Equal(got, c.want) || (err != nil) != (c.fault != "") || err != nil &&
			!strings.Contains(err.Error(), c.fault) {
			t.Errorf("%q: %v, %v", c.text, got, err)
		}
	}
}

// A licence that is not known is an error next to one that is.
func TestLicensesOfEachFile(t *testing.T) {
	known := []byte("Apache License Version 2.0")
	if got, err := licensesOf(map[string][]byte{"LICENSE": known,
		"sub/LICENSE.other": []byte("do what you want")}); err == nil || !strings.Contains(err.Error(), "sub/LICENSE.other") {
		t.Errorf("an unknown licence: %v, %v", got, err)
	}
	if got, err := licensesOf(map[string][]byte{"LICENSE": known, "NOTICE": []byte("made by its author")}); err != nil {
		t.Errorf("a notice: %v, %v", got, err)
	}
}

// What podstead links on each platform is under permissive licences. A dependency with another
// licence fails here, long before a release.
func TestLinkedModulesArePermissive(t *testing.T) {
	t.Chdir("../..")
	for _, p := range platforms {
		modules, err := linkedModules(p)
		if err != nil {
			t.Fatal(err)
		}
		if len(modules) < 10 {
			t.Fatalf("%s links only %v", p.name, modules)
		}
		for _, m := range modules {
			if _, err := licensesOf(m.files); err != nil {
				t.Errorf("%s: %s %s: %v", p.name, m.path, m.version, err)
			}
		}
	}
}

// An archive depends on nothing but its content.
func TestArchive(t *testing.T) {
	var sums [][32]byte
	for range 2 {
		dir := t.TempDir()
		a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
		for _, file := range []string{a, b} {
			if err := os.WriteFile(file, []byte("content"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		list := []entry{{"x/a", a, 0o644}, {"b", b, 0o755}}
		if len(sums) > 0 {
			slices.Reverse(list)
		}
		data, err := archiveOf("top", list, time.Unix(1e9, 0))
		if err != nil {
			t.Fatal(err)
		}
		sums = append(sums, sha256.Sum256(data))
	}
	if sums[0] != sums[1] {
		t.Error("two archives of the same files differ")
	}
}

// install.sh installs, upgrades and removes, over HTTP and from a directory; and installs nothing
// that has another checksum, is cut off, or is for another architecture.
func TestInstallScript(t *testing.T) {
	dir, root := t.TempDir(), t.TempDir()
	r := release{version: "v0.1.0", out: dir, date: time.Unix(1e9, 0)}
	archive := r.base(platform{name: "armv7"}) + ".tar.gz"
	publish := func(program string) {
		t.Helper()
		source := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(source, []byte(program), 0o600); err != nil {
			t.Fatal(err)
		}
		list := []entry{{"podstead", source, 0o755}, {"podstead.service", "../../examples/podstead.service", 0o644}}
		for _, name := range []string{"config.yaml", "README.md", "LICENSE", "CHANGELOG.md", "SECURITY.md", "docs/a.md",
			"examples/a.yaml", "licenses/a", "man/podstead.1.gz", "completions/bash/podstead", "completions/zsh/_podstead",
			"completions/fish/podstead.fish"} {
			list = append(list, entry{name, source, 0o644})
		}
		data, err := archiveOf(r.base(platform{name: "armv7"}), list, r.date)
		if err != nil {
			t.Fatal(err)
		}
		_ = os.Remove(filepath.Join(dir, checksumFile))
		if err := os.WriteFile(filepath.Join(dir, archive), data, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := r.checksums(); err != nil {
			t.Fatal(err)
		}
	}
	server := httptest.NewServer(http.FileServer(http.Dir(dir)))
	defer server.Close()
	script := func(args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "sh", append([]string{"../../install.sh"}, args...)...)
		cmd.Env = append(os.Environ(), "DESTDIR="+root, "PODSTEAD_ARCH=armv7")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	installed := func() string {
		data, _ := os.ReadFile(filepath.Join(root, "usr/local/bin/podstead"))
		return string(data)
	}

	publish("one")
	if out, err := script("--from", server.URL); err != nil || installed() != "one" {
		t.Fatalf("install: %v\n%s", err, out)
	}
	if data, err := os.ReadFile(filepath.Join(root, "etc/systemd/system/podstead.service")); err != nil ||
		!bytes.Contains(data, []byte("/usr/local/bin/podstead run")) {
		t.Errorf("unit: %v %s", err, data)
	}
	for _, name := range []string{"SECURITY.md", "docs/a.md", "examples/a.yaml", "licenses/a"} {
		if _, err := os.Stat(filepath.Join(root, "usr/local/share/doc/podstead", name)); err != nil {
			t.Error(err)
		}
	}
	config := filepath.Join(root, "etc/podstead/config.yaml")
	if err := os.WriteFile(config, []byte("edited"), 0o600); err != nil {
		t.Fatal(err)
	}

	publish("two")
	if err := os.WriteFile(filepath.Join(dir, archive), []byte("changed on the way"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := script("--from", server.URL); err == nil || !strings.Contains(out, "checksum") || installed() != "one" {
		t.Errorf("wrong checksum: %v, %q is installed\n%s", err, installed(), out)
	}
	if out, err := script("--from", server.URL+"/none"); err == nil || !strings.Contains(out, "failed to download") ||
		installed() != "one" {
		t.Errorf("nothing there: %v\n%s", err, out)
	}
	publish("two")
	if out, err := script("--from", dir); err != nil || installed() != "two" {
		t.Errorf("upgrade: %v, %q is installed\n%s", err, installed(), out)
	}
	if data, err := os.ReadFile(config); err != nil || string(data) != "edited" {
		t.Errorf("the configuration is not kept: %v %q", err, data)
	}
	if err := os.WriteFile(filepath.Join(dir, checksumFile),
		fmt.Appendf(nil, "%064x  %s\n", 1, "podstead_0.1.0_linux_amd64.tar.gz"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := script("--from", server.URL); err == nil || !strings.Contains(out, "no archive for armv7") {
		t.Errorf("other architecture: %v\n%s", err, out)
	}

	if out, err := script("--uninstall"); err != nil || installed() != "" {
		t.Errorf("uninstall: %v\n%s", err, out)
	}
	var left []string
	files, err := tree(root, "")
	for _, f := range files {
		left = append(left, f.name)
	}
	if err != nil || !slices.Equal(left, []string{"etc/podstead/config.yaml"}) {
		t.Errorf("left: %v, %v", left, err)
	}
	if _, err := os.Stat(filepath.Join(root, "etc/pods")); err != nil {
		t.Error(err)
	}
}

// install.sh names each tool that the system lacks, before it downloads anything.
func TestInstallScriptNeedsTools(t *testing.T) {
	for missing, from := range map[string]string{"tar": "/nowhere", "gzip": "/nowhere", "sha256sum": "/nowhere",
		"curl or wget": "http://127.0.0.1:1"} {
		path := t.TempDir()
		for _, tool := range []string{"tar", "gzip", "sha256sum", "curl", "wget", "sh", "sed", "uname", "id", "mktemp", "rm",
			"cp", "grep"} {
			file, err := exec.LookPath(tool)
			if err != nil || strings.Contains(missing, tool) {
				continue
			}
			if err := os.Symlink(file, filepath.Join(path, tool)); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.CommandContext(t.Context(), "sh", "../../install.sh", "--from", from)
		cmd.Env = []string{"PATH=" + path, "DESTDIR=" + t.TempDir(), "PODSTEAD_ARCH=amd64"}
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "install.sh: needs "+missing) {
			t.Errorf("without %s: %v\n%s", missing, err, out)
		}
	}
}

// The configuration of a new installation has its settings, and nothing else that has an
// effect.
func TestInstalledConfiguration(t *testing.T) {
	example, err := os.ReadFile(filepath.Join("..", "..", "examples", "config", "config.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var settings []string
	for line := range strings.Lines(string(commented(example))) {
		if !strings.HasPrefix(line, "#") {
			settings = append(settings, line)
		}
	}
	if !slices.Equal(settings, installedSettings) {
		t.Errorf("the configuration has %q, want %q", settings, installedSettings)
	}
}

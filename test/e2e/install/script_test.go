package install

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podstead/podstead/test/e2e/harness"
)

// install.sh on a system that has busybox and nothing else, in a root directory of its own: no
// package manager, no systemd, no C library. It installs a release from a directory and over HTTP, and
// nothing that has another checksum.
func TestInstallScriptOnBusybox(t *testing.T) {
	t.Parallel()
	release, root := releaseDir(t), t.TempDir()
	chroot := func(command ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "chroot", append([]string{root}, command...)...)
		cmd.Env = []string{"PATH=/usr/local/bin:/bin"}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	script := func(args ...string) (string, error) {
		return chroot(append([]string{"/bin/sh", "/install.sh"}, args...)...)
	}
	archive := hostPlatform(t).base() + ".tar.gz"
	for _, dir := range []string{"bin", "dev", "tmp", "release"} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	harness.CopyFile(t, "/usr/bin/busybox", filepath.Join(root, "bin/busybox"))
	harness.CopyFile(t, filepath.Join(release, "install.sh"), filepath.Join(root, "install.sh"))
	for _, file := range []string{archive, "SHA256SUMS"} {
		harness.CopyFile(t, filepath.Join(release, file), filepath.Join(root, "release", file))
	}
	output(t, "", "mknod", filepath.Join(root, "dev/null"), "c", "1", "3")
	output(t, "", "chmod", "755", filepath.Join(root, "bin/busybox"))
	for applet := range strings.FieldsSeq(output(t, "", "/usr/bin/busybox", "--list")) {
		if err := os.Symlink("busybox", filepath.Join(root, "bin", applet)); err != nil && applet != "busybox" {
			t.Fatal(err)
		}
	}
	server := httptest.NewServer(http.FileServer(http.Dir(release)))
	defer server.Close()
	version := func() string { // empty if nothing is installed
		out, _ := exec.CommandContext(t.Context(), "chroot", root, "/usr/local/bin/podstead", "version").Output()
		return string(out)
	}

	if out, err := script("--help"); err != nil || !strings.Contains(out, "--uninstall") {
		t.Errorf("--help: %v\n%s", err, out)
	}
	if out, err := script("--from", "/release"); err != nil || !strings.Contains(out, "does not run systemd") ||
		!strings.Contains(version(), "v0.0.1") {
		t.Fatalf("from a directory: %v\n%s%s", err, out, version())
	}

	// A next release whose archive is cut off on the way.
	data, err := os.ReadFile(filepath.Join(root, "release", archive))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "release", archive), data[:len(data)/2], 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "usr/local/bin/podstead"), []byte("#!/bin/sh\necho earlier\n"),
		0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := script("--from", "/release"); err == nil || !strings.Contains(out, "checksum") ||
		version() != "earlier\n" {
		t.Errorf("with half of the archive: %v\n%s%s", err, out, version())
	}
	if out, err := script("--from", server.URL); err != nil || !strings.Contains(out, "Restart that now") ||
		!strings.Contains(version(), "v0.0.1") {
		t.Errorf("over HTTP: %v\n%s%s", err, out, version())
	}
	if left, err := os.ReadDir(filepath.Join(root, "tmp")); err != nil || len(left) != 0 {
		t.Errorf("temporary files are left: %v, %v", left, err)
	}
	// Nothing that is stored is touched, empty or not.
	for _, dir := range []string{"var/lib/podstead/volumes/default/data/pg_wal", "var/lib/podstead/records", "etc/pods"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	stored := filepath.Join(root, "var/lib/podstead/volumes/default/data/PG_VERSION")
	if err := os.WriteFile(stored, []byte("15\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := script("--uninstall"); err != nil || version() != "" {
		t.Errorf("--uninstall: %v\n%s", err, out)
	}
	for _, path := range []string{"etc/podstead/config.yaml", "etc/pods", "var/lib/podstead/records",
		"var/lib/podstead/volumes/default/data/pg_wal"} {
		if _, err := os.Stat(filepath.Join(root, path)); err != nil {
			t.Error(err)
		}
	}
	if text, err := os.ReadFile(stored); string(text) != "15\n" {
		t.Errorf("a file of a claim: %q, %v", text, err)
	}
}

package install

import (
	"archive/tar"
	"compress/gzip"
	"debug/elf"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/podstead/podstead/test/testbed"
)

// platform is a platform of a release, as the parts of it call it.
type platform struct {
	name, deb, rpm string
	machine        elf.Machine
	class          elf.Class
	// qemu is the program that emulates it on another platform.
	qemu string
}

var platforms = []platform{
	{"amd64", "amd64", "x86_64", elf.EM_X86_64, elf.ELFCLASS64, "qemu-x86_64-static"},
	{"arm64", "arm64", "aarch64", elf.EM_AARCH64, elf.ELFCLASS64, "qemu-aarch64-static"},
	{"armv7", "armhf", "armv7hl", elf.EM_ARM, elf.ELFCLASS32, "qemu-arm-static"},
	{"riscv64", "riscv64", "riscv64", elf.EM_RISCV, elf.ELFCLASS64, "qemu-riscv64-static"},
}

// hostPlatform returns the platform of this machine.
func hostPlatform(t *testing.T) platform {
	t.Helper()
	i := slices.IndexFunc(platforms, func(p platform) bool { return p.name == runtime.GOARCH })
	if i < 0 {
		t.Fatalf("a release has nothing for %s", runtime.GOARCH)
	}
	return platforms[i]
}

// releases are the releases that several tests look at. The first that needs one builds it.
var releases [2]struct {
	sync.Once
	dir string
	err error
}

// releaseDir returns the directory of a release v0.0.1 for all platforms.
func releaseDir(t *testing.T) string {
	t.Helper()
	return buildRelease(t, 0, "v0.0.1")
}

// nextReleaseDir returns the directory of a release v0.0.2 for this machine.
func nextReleaseDir(t *testing.T) string {
	t.Helper()
	return buildRelease(t, 1, "v0.0.2", hostPlatform(t).name)
}

func buildRelease(t *testing.T, number int, version string, platforms ...string) string {
	t.Helper()
	r := &releases[number]
	r.Do(func() {
		start := time.Now()
		r.dir, r.err = testbed.BuildRelease(version, platforms...)
		t.Logf("make release of %s took %v", version, time.Since(start).Round(time.Second))
	})
	if r.err != nil {
		t.Fatal(r.err)
	}
	return r.dir
}

func (p platform) base() string { return "podstead_0.0.1_linux_" + p.name }

// debFile and rpmFile return the packages for the platform in a release.
func (p platform) debFile(t *testing.T, dir string) string {
	t.Helper()
	return onlyFile(t, filepath.Join(dir, "podstead_*-1_"+p.deb+".deb"))
}

func (p platform) rpmFile(t *testing.T, dir string) string {
	t.Helper()
	return onlyFile(t, filepath.Join(dir, "podstead-*-1."+p.rpm+".rpm"))
}

func onlyFile(t *testing.T, pattern string) string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) != 1 {
		t.Fatalf("%s: %v, %v", pattern, files, err)
	}
	return files[0]
}

// program unpacks the program of the platform's archive.
func (p platform) program(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "podstead")
	for name, f := range archiveFiles(t, filepath.Join(releaseDir(t), p.base()+".tar.gz")) {
		if name != p.base()+"/podstead" {
			continue
		}
		if err := os.WriteFile(file, f.data, 0o755); err != nil {
			t.Fatal(err)
		}
		return file
	}
	t.Fatalf("the archive for %s has no program", p.name)
	return ""
}

type archiveFile struct {
	header *tar.Header
	data   []byte
}

// archiveFiles returns the files of a compressed archive by their names.
func archiveFiles(t *testing.T, file string) map[string]archiveFile {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zip, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]archiveFile{}
	for r := tar.NewReader(zip); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[h.Name] = archiveFile{h, data}
	}
}

// output runs a program, which must succeed, and returns what it prints.
func output(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// installedFiles are files of both packages and their modes.
var installedFiles = map[string]string{
	"/usr/bin/podstead": "-rwxr-xr-x", "/usr/lib/systemd/system/podstead.service": "-rw-r--r--",
	"/usr/lib/systemd/system-preset/50-podstead.preset": "-rw-r--r--", "/etc/pods": "drwxr-xr-x",
	"/etc/podstead/config.yaml":         "-rw-r--r--",
	"/usr/share/man/man1/podstead.1.gz": "-rw-r--r--", "/usr/share/man/man1/podstead-run.1.gz": "-rw-r--r--",
	"/usr/share/bash-completion/completions/podstead":                 "-rw-r--r--",
	"/usr/share/doc/podstead/docs/install.md":                         "-rw-r--r--",
	"/usr/share/doc/podstead/licenses/google.golang.org/grpc/LICENSE": "-rw-r--r--",
}

// A release has an archive, packages and a bill of materials for each platform, whose metadata are
// right; checksums of all of it, which are signed; and nothing else.
func TestRelease(t *testing.T) {
	t.Parallel()
	dir := releaseDir(t)
	want := []string{"SHA256SUMS", "install.sh"}
	var boms []string
	for _, p := range platforms {
		boms = append(boms, filepath.Join(dir, p.base()+".cdx.json"))
		want = append(want, p.base()+".tar.gz", p.base()+".cdx.json", "podstead_0.0.1-1_"+p.deb+".deb",
			"podstead-0.0.1-1."+p.rpm+".rpm")
	}
	slices.Sort(want)
	entries, err := os.ReadDir(dir)
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("the release has\n%v, want\n%v (%v)", got, want, err)
	}
	if lines := strings.Count(output(t, dir, "sha256sum", "--check", "--strict", "SHA256SUMS"),
		": OK"); lines != len(want)-1 {
		t.Errorf("SHA256SUMS has %d files, want %d", lines, len(want)-1)
	}
	signed, err := os.ReadFile(filepath.Join(filepath.Dir(dir), "SHA256SUMS"))
	if sums, _ := os.ReadFile(filepath.Join(dir, "SHA256SUMS")); err != nil || string(signed) != string(sums) {
		t.Errorf("the command that signs got %q, %v", signed, err)
	}
	output(t, filepath.Join(testbed.SourceRoot(), "test", "oracle"), "go", append([]string{"run", "./sbom"}, boms...)...)

	renderManual(t, archiveFiles(t, filepath.Join(dir, hostPlatform(t).base()+".tar.gz")))
	for _, p := range platforms {
		t.Run(p.name, func(t *testing.T) {
			program, err := elf.Open(p.program(t))
			if err != nil {
				t.Fatal(err)
			}
			defer program.Close()
			if program.Machine != p.machine || program.Class != p.class {
				t.Errorf("the program is for %v, %v", program.Machine, program.Class)
			}
			for _, s := range program.Progs {
				if s.Type == elf.PT_INTERP {
					t.Error("the program is not static")
				}
			}
			files := archiveFiles(t, filepath.Join(dir, p.base()+".tar.gz"))
			for name, mode := range map[string]int64{"podstead": 0o755, "podstead.service": 0o644, "config.yaml": 0o644,
				"LICENSE": 0o644, "man/podstead.1.gz": 0o644, "licenses/std/LICENSE": 0o644} {
				if f, ok := files[path.Join(p.base(), name)]; !ok || f.header.Mode != mode || f.header.Uid != 0 ||
					len(f.data) == 0 {
					t.Errorf("%s in the archive: %+v", name, f.header)
				}
			}
			p.testDeb(t, p.debFile(t, dir))
			p.testRPM(t, p.rpmFile(t, dir))
		})
	}
}

// renderManual renders each manual page of an archive. man warns of what it cannot render.
func renderManual(t *testing.T, files map[string]archiveFile) {
	t.Helper()
	dir, pages := t.TempDir(), 0
	for name, f := range files {
		if path.Base(path.Dir(name)) != "man" {
			continue
		}
		pages++
		page := filepath.Join(dir, path.Base(name))
		if err := os.WriteFile(page, f.data, 0o644); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "man", "--warnings", "-l", page)
		cmd.Env = append(os.Environ(), "MANWIDTH=80", "LC_ALL=C.UTF-8")
		var warnings strings.Builder
		cmd.Stderr = &warnings
		text, err := cmd.Output()
		for _, want := range []string{"NAME", "SYNOPSIS", "podstead"} {
			if err != nil || warnings.Len() > 0 || !strings.Contains(string(text), want) {
				t.Errorf("man %s: %v %s\n%s", name, err, &warnings, text)
				break
			}
		}
	}
	if pages < 30 {
		t.Errorf("the archive has %d manual pages", pages)
	}
}

func (p platform) testDeb(t *testing.T, file string) {
	for field, want := range map[string]string{
		"Package": "podstead", "Version": "0.0.1-1", "Architecture": p.deb, "Depends": "", "Pre-Depends": "",
		"Recommends": "containerd | cri-o, runc, containernetworking-plugins, iptables",
	} {
		if got := output(t, "", "dpkg-deb", "-f", file, field); got != want {
			t.Errorf("%s of the deb is %q, want %q", field, got, want)
		}
	}
	control := t.TempDir()
	output(t, "", "dpkg-deb", "-e", file, control)
	if conffiles, err := os.ReadFile(filepath.Join(control, "conffiles")); string(
		conffiles) != "/etc/podstead/config.yaml\n" {
		t.Errorf("conffiles of the deb: %q, %v", conffiles, err)
	}
	for _, script := range []string{"postinst", "prerm", "postrm"} {
		if info, err := os.Stat(filepath.Join(control, script)); err != nil || info.Mode().Perm() != 0o755 {
			t.Errorf("%s of the deb: %v, %v", script, info, err)
		}
	}
	modes := map[string]string{}
	for line := range strings.Lines(output(t, "", "dpkg-deb", "-c", file)) {
		f := strings.Fields(line)
		modes[strings.TrimSuffix(strings.TrimPrefix(f[5], "."), "/")] = f[0] + " " + f[1]
	}
	for path, mode := range installedFiles {
		if modes[path] != mode+" root/root" {
			t.Errorf("%s in the deb is %q, want %s root/root", path, modes[path], mode)
		}
	}
}

func (p platform) testRPM(t *testing.T, file string) {
	if got, want := output(t, "", "rpm", "-qp", "--qf", "%{NAME} %{VERSION}-%{RELEASE} %{ARCH} %{OS} %{LICENSE}", file),
		"podstead 0.0.1-1 "+p.rpm+" linux Apache-2.0"; got != want {
		t.Errorf("the rpm is %q, want %q", got, want)
	}
	for query, want := range map[string]string{
		"--recommends": "containerd\nrunc\ncontainernetworking-plugins\niptables", "-c": "/etc/podstead/config.yaml",
	} {
		if got := output(t, "", "rpm", "-qp", query, file); got != want {
			t.Errorf("rpm %s prints %q, want %q", query, got, want)
		}
	}
	for line := range strings.Lines(output(t, "", "rpm", "-qpR", file)) {
		if !strings.HasPrefix(line, "rpmlib(") && !strings.HasPrefix(line, "/bin/sh") {
			t.Errorf("the rpm requires %s", line)
		}
	}
	modes := map[string]string{}
	for line := range strings.Lines(
		output(t, "", "rpm", "-qp", "--qf", "[%{FILENAMES} %{FILEMODES:perms} %{FILEUSERNAME}/%{FILEGROUPNAME}\n]", file)) {
		name, mode, _ := strings.Cut(strings.TrimSpace(line), " ")
		modes[name] = mode
	}
	for path, mode := range installedFiles {
		if modes[path] != mode+" root/root" {
			t.Errorf("%s in the rpm is %q, want %s root/root", path, modes[path], mode)
		}
	}
}

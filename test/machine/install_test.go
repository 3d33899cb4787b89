package machine

import (
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/podstead/podstead/test/image"
	"github.com/podstead/podstead/test/testbed"
)

// pauseImage is the sandbox image that Debian's containerd requests.
const pauseImage = "registry.k8s.io/pause:3.6"

// settle bounds what the machine needs for a change, on a host that does other work as well.
const settle = 10 * time.Minute

// fixes are what a user does for a finding of `podstead check` whose fix needs a network, by the
// name of the check.
var fixes = map[string]string{
	"pause-image": "ctr -n k8s.io images import /root/pause.tar",
	// The machine has no time servers.
	"clock": "true",
}

// finding is one finding of `podstead check -o json`.
type finding struct{ Check, Level, Message, Fix, Repair string }

// check runs `podstead check` and returns its findings that are not ok.
func check(m *Machine, program string) (bad []finding) {
	m.t.Helper()
	out, _ := m.Try(program + " check -o json; true") // the findings say what fails
	var all struct{ Findings []finding }
	if err := json.Unmarshal([]byte(out), &all); err != nil || len(all.Findings) == 0 {
		m.t.Fatalf("podstead check: %v: %s", err, out)
	}
	for _, f := range all.Findings {
		if f.Level != "ok" {
			bad = append(bad, f)
		}
	}
	return bad
}

// install installs podstead from source, as docs/install.md reports, on a plain machine without a
// network: check names what is missing and how to fix it.
func install(m *Machine) {
	m.t.Helper()
	for _, p := range runtimePackages(m.t) {
		m.Sh("dpkg -s " + p + " >/dev/null")
	}
	m.CopyIn(testbed.Product(), "/root/podstead/bin/podstead", 0o755)
	examples, err := filepath.Glob(filepath.Join(testbed.SourceRoot(), "examples", "*.*"))
	if err != nil || len(examples) == 0 {
		m.t.Fatal("no examples", err)
	}
	for _, e := range examples {
		m.CopyIn(e, "/root/podstead/examples/"+filepath.Base(e), 0o644)
	}
	copyImages(m)
	m.Await("containerd is active", settle,
		func() error { _, err := m.Try("systemctl is-active containerd && ctr version"); return err })

	fixFindings(m, "/root/podstead/bin/podstead")
	for _, line := range sourceInstall(m.t) {
		m.Sh("cd /root/podstead && " + line)
	}
	m.Sh("podstead images load /root/busybox.tar")
}

// copyImages copies the images of the tests, which no registry has.
func copyImages(m *Machine) {
	m.t.Helper()
	pause := func() (image.Image, error) {
		program, err := buildFor(m.image.Arch, "./test/testbed/pause")
		if err != nil {
			return image.Image{}, err
		}
		return testbed.PauseOf(m.image.Arch, program)
	}
	busybox := func() (image.Image, error) { return testbed.BusyboxOf(m.image.Arch, m.image.busybox()) }
	m.CopyIn(archive(m.t, pauseImage, pause), "/root/pause.tar", 0o644)
	m.CopyIn(archive(m.t, testbed.BusyboxImage, busybox), "/root/busybox.tar", 0o644)
}

// fixFindings does what `podstead check` reports, until it finds nothing more.
func fixFindings(m *Machine, program string) {
	m.t.Helper()
	// A fix can reveal the next finding: a network configuration needs a kernel module.
	for round := range 4 {
		findings := check(m, program)
		findings = slices.DeleteFunc(findings, func(f finding) bool { return round > 0 && f.Check == "clock" })
		for _, f := range findings {
			m.t.Logf("%s %s: %s\n  fix: %s", f.Level, f.Check, f.Message, f.Fix)
			command, ok := fixes[f.Check]
			if !ok {
				command = f.Fix
			}
			m.Sh(command)
		}
		if len(findings) == 0 {
			return
		}
	}
	m.t.Error("check still reports findings after their fixes")
}

func installPage(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(testbed.SourceRoot(), "docs", "install.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// runtimePackages returns the packages that docs/install.md installs first.
func runtimePackages(t testing.TB) []string {
	t.Helper()
	match := regexp.MustCompile(`(?m)^    apt-get install -y (.*)$`).FindStringSubmatch(installPage(t))
	if match == nil {
		t.Fatal("docs/install.md has no line with apt-get install -y")
	}
	return strings.Fields(match[1])
}

// sourceInstall returns the commands of the section "From source" of docs/install.md. What builds
// the program has been done already.
func sourceInstall(t testing.TB) (lines []string) {
	t.Helper()
	_, section, _ := strings.Cut(installPage(t), "\n## From source\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for line := range strings.Lines(section) {
		if line, ok := strings.CutPrefix(line, "    "); ok {
			lines = append(lines, strings.TrimPrefix(strings.TrimSpace(line), "make build && "))
		}
	}
	if len(lines) < 3 {
		t.Fatalf("the section has the commands %q", lines)
	}
	return lines
}

// archive writes an image to a file, as docker save does.
func archive(t testing.TB, ref string, create func() (image.Image, error)) string {
	t.Helper()
	img, err := create()
	if err != nil {
		t.Fatal(err)
	}
	data, err := image.DockerArchive(map[string]image.Image{ref: img})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "image.tar")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// keepDir keeps the disk of the installation for the next run, which otherwise takes minutes to
// install the same again.
var keepDir = flag.String("keep", "",
	"a directory that keeps the disk of a machine with podstead for the next run with the same program and image")

// installed is the disk of a machine with podstead, which is switched off, for the tests that
// need one.
var installed struct {
	sync.Once
	disk string
}

// installedDisk returns where the disk of the installation is, which depends on what is installed
// if it is kept.
func installedDisk(t *testing.T) string {
	t.Helper()
	if *keepDir == "" {
		return filepath.Join(testbed.Dir(), "installed.qcow2")
	}
	program, err := os.ReadFile(testbed.Product())
	if err != nil {
		t.Fatal(err)
	}
	image, err := BaseImage(AMD64)
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(*keepDir, fmt.Sprintf("installed-%x.qcow2", sha256.Sum256(append(program, image.Dir...))))
}

// newInstalled returns a machine that is off, with podstead installed and no manifests.
func newInstalled(t *testing.T, options ...Options) *Machine {
	t.Helper()
	installed.Do(func() {
		disk := installedDisk(t)
		if _, err := os.Stat(disk); err != nil {
			m := New(t)
			m.Start()
			install(m)
			m.Poweroff()
			if out, err := exec.Command("sh", "-c", `cp --sparse=always "$1" "$2.new" && mv "$2.new" "$2"`, "sh", m.Disk(),
				disk).CombinedOutput(); err != nil {
				t.Fatalf("cannot copy the disk: %v: %s", err, out)
			}
		}
		installed.disk = disk
	})
	if installed.disk == "" {
		t.Fatal("the installation failed in an earlier test")
	}
	o := Options{}
	if len(options) > 0 {
		o = options[0]
	}
	o.Disk = installed.disk
	return New(t, o)
}

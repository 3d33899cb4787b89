package install

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// emulated returns a program that runs the platform's podstead of a release under QEMU's user
// emulation. System calls reach this machine's kernel.
func (p platform) emulated(t *testing.T) string {
	t.Helper()
	qemu, err := exec.LookPath(p.qemu)
	if err != nil {
		t.Fatal(err, "; run: make setup")
	}
	file := filepath.Join(t.TempDir(), "podstead-"+p.name)
	script := fmt.Sprintf("#!/bin/sh\nexec %s %s \"$@\"\n", qemu, p.program(t))
	if err := os.WriteFile(file, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return file
}

// The programs of a release for other architectures run: each prints its version, validates and
// checks the host; and the one for arm64 runs pods on a real containerd, from their start to their
// removal, across a crash.
func TestEmulatedArchitectures(t *testing.T) {
	t.Parallel()
	for _, p := range platforms {
		if p == hostPlatform(t) {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			n := harness.NewNode(t, harness.SharedRuntime(t, testbed.Containerd24))
			n.Binary = p.emulated(t)
			testEmulatedCommands(n, p)
			if p.name == "arm64" {
				testEmulatedDaemon(n)
			}
		})
	}
}

// testEmulatedCommands runs the commands that need no daemon.
func testEmulatedCommands(n *harness.Node, p platform) {
	t := n.T
	arch := map[string]string{"armv7": "arm"}[p.name]
	if arch == "" {
		arch = p.name
	}
	var version struct{ Version, Platform string }
	out, errs, status := n.Podstead("version", "-o", "json")
	if err := json.Unmarshal([]byte(out), &version); err != nil || status != 0 || version.Version != "v0.0.1" ||
		version.Platform != "linux/"+arch {
		t.Errorf("version exited with %d, %v: %s%s", status, err, out, errs)
	}
	good, bad := filepath.Join(n.Dir(), "good.yaml"), filepath.Join(n.Dir(), "bad.yaml")
	for file, text := range map[string]string{good: harness.SleepPod("p", "one"),
		bad: strings.Replace(harness.SleepPod("p", "one"), "image:", "imago:", 1)} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if out, errs, status := n.Podstead("validate", good); status != 0 || !strings.Contains(out, "1 pod in 1 file: valid") {
		t.Errorf("validate of a good manifest exited with %d: %s%s", status, out, errs)
	}
	if out, errs, status := n.Podstead("validate", bad); status != 1 || !strings.Contains(out+errs, "imago") {
		t.Errorf("validate of a bad manifest exited with %d: %s%s", status, out, errs)
	}

	// What check reports depends on the host, so what this machine's own program reports is the measure.
	findings := func(binary string) map[string]string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), binary, "check", "-o", "json", "--container-runtime-endpoint", n.Endpoint,
			"--pod-manifest-path", n.Manifests, "--root-dir", n.Root, "--api-socket", n.Socket(), "--healthz-port", "0",
			"--port", "0",
			// What is free of the host's disk may change between both programs.
			"--eviction-hard", "")
		out, _ := cmd.Output() // its findings say what fails
		var all struct {
			Findings []struct{ Check, Level, Message string }
		}
		if err := json.Unmarshal(out, &all); err != nil || len(all.Findings) < 10 {
			t.Fatalf("check: %v\n%s", err, out)
		}
		levels := map[string]string{}
		for _, f := range all.Findings {
			levels[f.Check] = f.Level
			if f.Level == "fail" {
				levels[f.Check] += ": " + f.Message
			}
		}
		return levels
	}
	want := findings(testbed.Product())
	for check, level := range findings(n.Binary) {
		if level != want[check] {
			t.Errorf("check %s is %q here and %q on the host's own architecture", check, level, want[check])
		}
	}
}

// testEmulatedDaemon runs pods.
func testEmulatedDaemon(n *harness.Node) {
	t := n.T
	n.WriteManifest("p.yaml", harness.ScriptPod("p", "one", 10,
		"echo started with $WORD; trap 'exit 0' TERM; sleep 100000 & wait"))
	n.MustStart()
	p := n.AwaitRunning("p")
	n.AwaitReady("p")
	n.CLI(0, []string{n.PodName("p"), "Running"}, "get", "pods")
	n.Await("logs prints the output of the container", func() error {
		if out, errs, status := n.Podstead("logs", "p", "--api-socket", n.Socket()); status != 0 ||
			out != "started with one\n" {
			return fmt.Errorf("%d: %q %s", status, out, errs)
		}
		return nil
	})
	if out, errs, status := n.Podstead("exec", "--api-socket", n.Socket(), "p", "--", "sh", "-c",
		"echo $WORD; exit 3"); status != 3 || out != "one\n" {
		t.Errorf("exec exited with %d: %q %s", status, out, errs)
	}

	n.Kill()
	n.MustStart()
	n.AwaitReady("p")
	n.MustStillRun("p", p)

	n.WriteManifest("p.yaml", harness.ScriptPod("p", "two", 10,
		"echo started with $WORD; trap 'exit 0' TERM; sleep 100000 & wait"))
	second := n.AwaitOther("p", p)
	if word := n.Exec(second, "sh", "-c", "echo $WORD"); word != "two" {
		t.Errorf("the replaced pod has the word %q", word)
	}
	n.RemoveManifest("p.yaml")
	n.AwaitGone("p")
	if err := n.Stop(); err != nil {
		t.Error(err)
	}
}

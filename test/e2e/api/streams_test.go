package api

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/podstead/podstead/test/e2e/harness"
)

// copyThrough sends data through a command and compares its output.
func copyThrough(cmd *exec.Cmd, size int64) error {
	sent, back := sha256.New(), sha256.New()
	var errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = io.TeeReader(harness.RandomData(size), sent), back, &errs
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w: %s", err, errs.String())
	}
	if !bytes.Equal(sent.Sum(nil), back.Sum(nil)) {
		return errors.New("the output differs from the input")
	}
	return nil
}

// A real kubectl uses exec and attach over each of its protocols.
func TestKubectlStreams(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.WriteManifest("web.yaml", harness.StreamPod("web"))
		n.MustStart()
		n.AwaitReady("web")
		web := n.PodName("web")
		for shape := range harness.StreamProtocols {
			k := harness.NewKubectl(n)
			command := func(args ...string) *exec.Cmd { return k.CommandWith(shape, args...) }
			var out, errs bytes.Buffer
			cmd := command("exec", web, "-c", "main", "--", "sh", "-c", "echo out; echo err >&2; exit 7")
			cmd.Stdout, cmd.Stderr = &out, &errs
			err := cmd.Run()
			if code := cmd.ProcessState.ExitCode(); code != 7 || out.String() != "out\n" ||
				!strings.HasPrefix(errs.String(), "err\n") {
				t.Errorf("%s: exec exited with %d (%v), %q, %q", shape, code, err, out.String(), errs.String())
			}
			size, begun := int64(20<<20), time.Now()
			if shape == "WebSocket" { // the current one
				size = 100 << 20
			}
			if err := copyThrough(command("exec", "-i", web, "--", "cat"), size); err != nil {
				t.Errorf("%s: exec -i cat: %v", shape, err)
			}
			t.Logf("%s: %d MiB through cat in %v", shape, size>>20, time.Since(begun))
			if text, err := command("exec", web, "--", "/nothing").CombinedOutput(); err == nil ||
				!strings.Contains(string(text), "/nothing") {
				t.Errorf("%s: exec of an unknown command: %v, %s", shape, err, text)
			}
			if err := harness.CheckTerminal(n, command("exec", "-it", web, "--", "sh")); err != nil {
				t.Errorf("%s: exec -it: %v", shape, err)
			}
			attached := command("attach", "-i", web, "-c", "reader")
			if err := harness.CheckAttached(attached); err != nil {
				t.Errorf("%s: attach -i: %v", shape, err)
			}
			_ = attached.Process.Kill()
			_ = attached.Wait()
			if text, err := command("exec", web, "-c", "none", "--", "true").CombinedOutput(); err == nil ||
				!strings.Contains(string(text), "none") {
				t.Errorf("%s: exec in no container: %v, %s", shape, err, text)
			}
		}
	})
}

// The podstead command uses exec and attach.
func TestExec(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.WriteManifest("web.yaml", harness.StreamPod("web"))
		n.MustStart()
		n.AwaitReady("web")
		command := func(args ...string) *exec.Cmd {
			return n.Command(append(args[:1:1], append([]string{"--api-socket", n.Socket()}, args[1:]...)...)...)
		}
		out, errs, status := n.Podstead("exec", "--api-socket", n.Socket(), "web", "--", "sh", "-c",
			"echo out; echo err >&2; exit 7")
		if status != 7 || out != "out\n" || !strings.HasPrefix(errs, "err\n") {
			t.Errorf("exec exited with %d, %q, %q", status, out, errs)
		}
		if out, errs, status = n.Podstead("exec", "--api-socket", n.Socket(), "web", "--", "/nothing"); status != 1 ||
			!strings.Contains(errs, "/nothing") {
			t.Errorf("exec of an unknown command exited with %d, %q, %q", status, out, errs)
		}
		begun := time.Now()
		if err := copyThrough(command("exec", "-i", "web", "--", "cat"), 100e6); err != nil {
			t.Errorf("exec -i cat: %v", err)
		}
		t.Logf("100 MB through cat in %v", time.Since(begun))
		if err := harness.CheckTerminal(n, command("exec", "-it", "web", "--", "sh")); err != nil {
			t.Errorf("exec -it: %v", err)
		}
		// When a client is killed, its command gets the end of standard input, and the
		// commands of other sessions keep running.
		main := n.AwaitContainer("web", "main")
		cut, other := command("exec", "-i", "web", "--", "cat", "-"), command("exec", "web", "--", "sleep", "4713")
		if _, err := cut.StdinPipe(); err != nil { // stays open
			t.Fatal(err)
		}
		for _, cmd := range []*exec.Cmd{other, cut} {
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
		}
		runs := func(word string) bool { return strings.Contains(n.Exec(main, "ps"), word) }
		harness.Await(t, "both commands run", func() error {
			if !runs("cat -") || !runs("sleep 4713") {
				return errors.New(n.Exec(main, "ps"))
			}
			return nil
		})
		_ = cut.Process.Kill()
		_ = cut.Wait()
		harness.Await(t, "the command whose client was killed ends", func() error {
			if runs("cat -") {
				return errors.New(n.Exec(main, "ps"))
			}
			return nil
		})
		if !runs("sleep 4713") {
			t.Error("the command of another session has ended")
		}
		_ = other.Process.Signal(syscall.SIGINT)
		if err := other.Wait(); other.ProcessState.ExitCode() != 130 {
			t.Errorf("exec, left with Ctrl-C: %v", err)
		}
		attached := command("attach", "-i", "web", "-c", "reader")
		if err := harness.CheckAttached(attached); err != nil {
			t.Errorf("attach -i: %v", err)
		}
		_ = attached.Process.Signal(syscall.SIGINT)
		if err := attached.Wait(); err != nil {
			t.Errorf("attach, left with Ctrl-C: %v", err)
		}
	})
}

// Ports of a pod are forwarded by kubectl and podstead, with many connections at once, each
// direction of which is closed separately.
func TestPortForward(t *testing.T) {
	const parallel, size = 40, 500_000
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.WriteManifest("web.yaml", harness.StreamPod("web"))
		n.MustStart()
		n.AwaitReady("web")
		commands := map[string]*exec.Cmd{
			"podstead": n.Command("port-forward", "--api-socket", n.Socket(), "web", ":7001", ":digest", ":7003")}
		for shape := range harness.StreamProtocols {
			commands["kubectl with "+shape] = harness.NewKubectl(n).CommandWith(shape, "port-forward", "pod/"+n.PodName("web"),
				":7001", ":7002", ":7003")
		}
		for name, cmd := range commands {
			begun := time.Now()
			at := harness.AwaitForwarding(t, cmd, 3)
			var all errgroup.Group
			for range parallel {
				all.Go(func() error { return harness.CheckEcho(at["7001"], size, false) })
				all.Go(func() error { return harness.CheckEcho(at["7002"], size/10, true) })
			}
			if err := all.Wait(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			t.Logf("%s: %d connections in %v", name, 2*parallel, time.Since(begun))
			if err := harness.CheckEcho(at["7003"], 10, false); err == nil {
				t.Errorf("%s: a port on which nothing listens echoes", name)
			}
		}
	})
}

// Files are copied both ways, by kubectl and by podstead.
func TestCopy(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.WriteManifest("web.yaml", harness.StreamPod("web"))
		n.MustStart()
		main := n.AwaitRunning("web")
		n.AwaitReady("web")
		from := filepath.Join(t.TempDir(), "site")
		if err := os.MkdirAll(filepath.Join(from, "deep", "er"), 0o755); err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(harness.RandomData(3 << 20))
		if err != nil {
			t.Fatal(err)
		}
		for name, mode := range map[string]os.FileMode{"deep/er/big": 0o600, "run": 0o755} {
			if err := os.WriteFile(filepath.Join(from, name), content, mode); err != nil {
				t.Fatal(err)
			}
		}
		sum := fmt.Sprintf("%x", sha256.Sum256(content))
		run := func(name string, args ...string) {
			t.Helper()
			cmd := harness.NewKubectl(n).Command(t.Context(), append([]string{"cp"}, args...)...)
			if name == "podstead" {
				cmd = n.Command(append([]string{"cp", "--api-socket", n.Socket()}, args...)...)
			}
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%s cp %v: %v, %s", name, args, err, out)
			}
		}
		for _, name := range []string{"podstead", "kubectl"} {
			pod, back := n.PodName("web"), filepath.Join(t.TempDir(), "back")
			run(name, from, pod+":/"+name)
			if got := n.Exec(main, "sh", "-c",
				"cd /"+name+" && sha256sum < deep/er/big && stat -c %a run deep/er/big"); got != sum+"  -\n755\n600" {
				t.Errorf("%s: the container has %q", name, got)
			}
			run(name, pod+":/"+name, back)
			got, err := os.ReadFile(filepath.Join(back, "deep/er/big"))
			if err != nil || !bytes.Equal(got, content) {
				t.Errorf("%s: the copy has %d bytes, %v", name, len(got), err)
			}
		}
		run("podstead", n.PodName("web")+":/podstead/run", t.TempDir())
	})
}

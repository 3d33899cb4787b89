package e2e

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/podstead/podstead/test/testbed"
)

// streamPod returns a pod with a container that serves ports and one that reads its standard
// input.
func streamPod(name string) string {
	return `apiVersion: v1
kind: Pod
metadata: {name: ` + name + `, annotations: {kubectl.kubernetes.io/default-container: main}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
    - name: main
      image: ` + testbed.BusyboxImage + `
      ports: [{name: digest, containerPort: 7002}]
      command: [/portserver]
      volumeMounts: [{name: portserver, mountPath: /portserver}]
    - {name: reader, image: ` + testbed.BusyboxImage + `, stdin: true, command: [sh, -c, "while read line; do echo got $line; done; sleep 100000"]}
  volumes: [{name: portserver, hostPath: {path: ` + testbed.PortServer() + `}}]
`
}

// streamProtocols are the protocols with which kubectl streams, with the environment that
// selects them.
var streamProtocols = map[string][]string{
	"WebSocket": {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS=true", "KUBECTL_PORT_FORWARD_WEBSOCKETS=true"},
	"SPDY":      {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS=false", "KUBECTL_PORT_FORWARD_WEBSOCKETS=false"},
	debianSPDY:  {},
}

// debianSPDY is Debian's kubectl, which is years older.
const debianSPDY = "Debian's SPDY"

// commandWith returns a kubectl command that uses one of these protocols.
func (k *kubectl) commandWith(shape string, args ...string) *exec.Cmd {
	cmd := k.command(k.n.t.Context(), args...)
	if shape == debianSPDY {
		cmd.Path = testbed.DebianKubectl()
	}
	cmd.Env = append(cmd.Env, streamProtocols[shape]...)
	return cmd
}

// randomData is reproducible and does not compress.
func randomData(size int64) io.Reader {
	return io.LimitReader(rand.NewChaCha8([32]byte{1}), size)
}

// copyThrough sends data through a command and compares its output.
func copyThrough(cmd *exec.Cmd, size int64) error {
	sent, back := sha256.New(), sha256.New()
	var errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = io.TeeReader(randomData(size), sent), back, &errs
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
	onEachRuntime(t, func(t *testing.T, n *node) {
		n.writeManifest("web.yaml", streamPod("web"))
		n.start()
		n.awaitReady("web")
		web := n.PodName("web")
		for shape := range streamProtocols {
			k := newKubectl(n)
			command := func(args ...string) *exec.Cmd { return k.commandWith(shape, args...) }
			var out, errs bytes.Buffer
			cmd := command("exec", web, "-c", "main", "--", "sh", "-c", "echo out; echo err >&2; exit 7")
			cmd.Stdout, cmd.Stderr = &out, &errs
			err := cmd.Run()
			if code := cmd.ProcessState.ExitCode(); code != 7 || out.String() != "out\n" || !strings.HasPrefix(errs.String(), "err\n") {
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
			if text, err := command("exec", web, "--", "/nothing").CombinedOutput(); err == nil || !strings.Contains(string(text), "/nothing") {
				t.Errorf("%s: exec of an unknown command: %v, %s", shape, err, text)
			}
			if err := checkTerminal(n, command("exec", "-it", web, "--", "sh")); err != nil {
				t.Errorf("%s: exec -it: %v", shape, err)
			}
			attached := command("attach", "-i", web, "-c", "reader")
			if err := checkAttached(attached); err != nil {
				t.Errorf("%s: attach -i: %v", shape, err)
			}
			_ = attached.Process.Kill()
			_ = attached.Wait()
			if text, err := command("exec", web, "-c", "none", "--", "true").CombinedOutput(); err == nil || !strings.Contains(string(text), "none") {
				t.Errorf("%s: exec in no container: %v, %s", shape, err, text)
			}
		}
	})
}

// checkTerminal types into a shell that a command opens in a container, resizes the terminal
// and exits with a code.
func checkTerminal(n *node, cmd *exec.Cmd) error {
	term, err := testbed.StartOnTerminal(cmd, 100, 40)
	if err != nil {
		return err
	}
	defer term.Close()
	step := func(typed, want string) error {
		if _, err := io.WriteString(term, typed); err != nil {
			return err
		}
		for deadline := time.Now().Add(3 * time.Minute); !strings.Contains(term.Screen(), want); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				_ = cmd.Process.Kill()
				return fmt.Errorf("no %q after %q; the screen has %q", want, typed, term.Screen())
			}
		}
		return nil
	}
	if err := step("", "/ # "); err != nil {
		return err
	}
	// The runtime sets the size when it gets it, which can be after the start of the shell.
	if err := step("until stty size | grep '40 100'; do sleep 0.05; done; echo is$((40+2))\n", "40 100\r\nis42"); err != nil {
		return err
	}
	// The terminal is raw: only the container echoes, and Ctrl-C goes there.
	if strings.Count(term.Screen(), "stty size") != 1 {
		return fmt.Errorf("the input is echoed twice: %q", term.Screen())
	}
	if err := term.Resize(132, 50); err != nil {
		return err
	}
	if err := step("until stty size | grep '50 132'; do sleep 0.05; done\n", "50 132\r\n"); err != nil {
		return err
	}
	// In a new shell, which already has the terminal: while the first one hands it over,
	// Ctrl-C is lost.
	if err := step("sh -c \"echo be''gun; exec sleep 1000\"\n", "begun"); err != nil {
		return err
	}
	if err := step("\x03", "^C"); err != nil {
		return err
	}
	if _, err := io.WriteString(term, "exit 5\n"); err != nil {
		return err
	}
	stuck := time.AfterFunc(3*time.Minute, func() { _ = cmd.Process.Kill() })
	defer stuck.Stop()
	err = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 5 {
		return fmt.Errorf("it exited with %d (%v); the screen has %q", code, err, term.Screen())
	}
	return nil
}

// checkAttached attaches to a container that answers each line.
func checkAttached(attached *exec.Cmd) error {
	in, err := attached.StdinPipe()
	if err != nil {
		return err
	}
	lines, err := attached.StdoutPipe()
	if err != nil {
		return err
	}
	if err := attached.Start(); err != nil {
		return err
	}
	if _, err := io.WriteString(in, "hello\n"); err != nil {
		return err
	}
	first, err := bufio.NewReader(lines).ReadString('\n')
	if first != "got hello\n" {
		return fmt.Errorf("the answer is %q, %v", first, err)
	}
	return nil
}

// The podstead command uses exec and attach.
func TestExec(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		n.writeManifest("web.yaml", streamPod("web"))
		n.start()
		n.awaitReady("web")
		command := func(args ...string) *exec.Cmd {
			return n.Command(append(args[:1:1], append([]string{"--api-socket", n.Socket()}, args[1:]...)...)...)
		}
		out, errs, status := n.podstead("exec", "--api-socket", n.Socket(), "web", "--", "sh", "-c", "echo out; echo err >&2; exit 7")
		if status != 7 || out != "out\n" || !strings.HasPrefix(errs, "err\n") {
			t.Errorf("exec exited with %d, %q, %q", status, out, errs)
		}
		if out, errs, status = n.podstead("exec", "--api-socket", n.Socket(), "web", "--", "/nothing"); status != 1 || !strings.Contains(errs, "/nothing") {
			t.Errorf("exec of an unknown command exited with %d, %q, %q", status, out, errs)
		}
		begun := time.Now()
		if err := copyThrough(command("exec", "-i", "web", "--", "cat"), 100e6); err != nil {
			t.Errorf("exec -i cat: %v", err)
		}
		t.Logf("100 MB through cat in %v", time.Since(begun))
		if err := checkTerminal(n, command("exec", "-it", "web", "--", "sh")); err != nil {
			t.Errorf("exec -it: %v", err)
		}
		// When a client is killed, its command gets the end of standard input, and the
		// commands of other sessions keep running.
		main := n.awaitContainer("web", "main")
		cut, other := command("exec", "-i", "web", "--", "cat", "-"), command("exec", "web", "--", "sleep", "4713")
		if _, err := cut.StdinPipe(); err != nil { // stays open
			t.Fatal(err)
		}
		for _, cmd := range []*exec.Cmd{other, cut} {
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
		}
		runs := func(word string) bool { return strings.Contains(n.exec(main, "ps"), word) }
		await(t, "both commands run", func() error {
			if !runs("cat -") || !runs("sleep 4713") {
				return errors.New(n.exec(main, "ps"))
			}
			return nil
		})
		_ = cut.Process.Kill()
		_ = cut.Wait()
		await(t, "the command whose client was killed ends", func() error {
			if runs("cat -") {
				return errors.New(n.exec(main, "ps"))
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
		if err := checkAttached(attached); err != nil {
			t.Errorf("attach -i: %v", err)
		}
		_ = attached.Process.Signal(syscall.SIGINT)
		if err := attached.Wait(); err != nil {
			t.Errorf("attach, left with Ctrl-C: %v", err)
		}
	})
}

// awaitForwarding starts a port forwarding and returns the local addresses by port of the pod.
func awaitForwarding(t *testing.T, cmd *exec.Cmd, ports int) map[string]string {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%v prints %s", cmd.Args, lastBytes(errs.String()))
		}
	})
	found := map[string]string{}
	lines := bufio.NewScanner(out)
	for len(found) < ports && lines.Scan() {
		words := strings.Fields(lines.Text()) // Forwarding from 127.0.0.1:40001 -> 7001
		if len(words) == 5 && strings.HasPrefix(words[2], "127.") {
			found[words[4]] = words[2]
		}
	}
	if len(found) < ports {
		t.Fatalf("only %v are forwarded: %v", found, lines.Err())
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return found
}

func lastBytes(text string) string { return text[max(0, len(text)-2000):] }

// checkEcho sends data to an address, closes its side for writing, and compares the response
// with the data or with its digest.
func checkEcho(address string, size int64, digest bool) error {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Minute))
	sent, back := sha256.New(), sha256.New()
	sending := make(chan error, 1)
	go func() {
		_, err := io.Copy(conn, io.TeeReader(randomData(size), sent))
		sending <- errors.Join(err, conn.(*net.TCPConn).CloseWrite())
	}()
	if digest {
		text, err := io.ReadAll(conn)
		if err := errors.Join(<-sending, err); err != nil {
			return err
		}
		if want := fmt.Sprintf("%x\n", sent.Sum(nil)); string(text) != want {
			return fmt.Errorf("the answer after the end of the input is %q, want %q", text, want)
		}
		return nil
	}
	n, err := io.Copy(back, conn)
	if err := errors.Join(<-sending, err); err != nil {
		return err
	}
	if n != size || !bytes.Equal(sent.Sum(nil), back.Sum(nil)) {
		return fmt.Errorf("the response has %d of %d bytes, or differs", n, size)
	}
	return nil
}

// Ports of a pod are forwarded by kubectl and podstead, with many connections at once, each
// direction of which is closed separately.
func TestPortForward(t *testing.T) {
	const parallel, size = 40, 500_000
	onEachRuntime(t, func(t *testing.T, n *node) {
		n.writeManifest("web.yaml", streamPod("web"))
		n.start()
		n.awaitReady("web")
		commands := map[string]*exec.Cmd{"podstead": n.Command("port-forward", "--api-socket", n.Socket(), "web", ":7001", ":digest", ":7003")}
		for shape := range streamProtocols {
			commands["kubectl with "+shape] = newKubectl(n).commandWith(shape, "port-forward", "pod/"+n.PodName("web"), ":7001", ":7002", ":7003")
		}
		for name, cmd := range commands {
			begun := time.Now()
			at := awaitForwarding(t, cmd, 3)
			var all errgroup.Group
			for range parallel {
				all.Go(func() error { return checkEcho(at["7001"], size, false) })
				all.Go(func() error { return checkEcho(at["7002"], size/10, true) })
			}
			if err := all.Wait(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			t.Logf("%s: %d connections in %v", name, 2*parallel, time.Since(begun))
			if err := checkEcho(at["7003"], 10, false); err == nil {
				t.Errorf("%s: a port on which nothing listens echoes", name)
			}
		}
	})
}

// Files are copied both ways, by kubectl and by podstead.
func TestCopy(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		n.writeManifest("web.yaml", streamPod("web"))
		n.start()
		main := n.awaitRunning("web")
		n.awaitReady("web")
		from := filepath.Join(t.TempDir(), "site")
		if err := os.MkdirAll(filepath.Join(from, "deep", "er"), 0o755); err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(randomData(3 << 20))
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
			cmd := newKubectl(n).command(t.Context(), append([]string{"cp"}, args...)...)
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
			if got := n.exec(main, "sh", "-c", "cd /"+name+" && sha256sum < deep/er/big && stat -c %a run deep/er/big"); got != sum+"  -\n755\n600" {
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

package harness

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/podstead/podstead/test/testbed"
)

// StreamPod returns a pod with a container that serves ports and one that reads its standard
// input.
func StreamPod(name string) string {
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
    - {name: reader, image: ` + testbed.BusyboxImage +
		`, stdin: true, command: [sh, -c, "while read line; do echo got $line; done; sleep 100000"]}
  volumes: [{name: portserver, hostPath: {path: ` + testbed.PortServer() + `}}]
`
}

// StreamProtocols are the protocols with which kubectl streams, with the environment that
// selects them.
var StreamProtocols = map[string][]string{
	"WebSocket": {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS=true", "KUBECTL_PORT_FORWARD_WEBSOCKETS=true"},
	"SPDY":      {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS=false", "KUBECTL_PORT_FORWARD_WEBSOCKETS=false"},
	debianSPDY:  {},
}

// debianSPDY is Debian's kubectl, which is years older.
const debianSPDY = "Debian's SPDY"

// CommandWith returns a kubectl command that uses one of these protocols.
func (k *Kubectl) CommandWith(shape string, args ...string) *exec.Cmd {
	cmd := k.Command(k.Node.T.Context(), args...)
	if shape == debianSPDY {
		cmd.Path = testbed.DebianKubectl()
	}
	cmd.Env = append(cmd.Env, StreamProtocols[shape]...)
	return cmd
}

// RandomData is reproducible and does not compress.
func RandomData(size int64) io.Reader {
	return io.LimitReader(rand.NewChaCha8([32]byte{1}), size)
}

// CheckTerminal types into a shell that a command opens in a container, resizes the terminal
// and exits with a code.
func CheckTerminal(n *Node, cmd *exec.Cmd) error {
	term, err := testbed.StartOnTerminal(cmd, 100, 40)
	if err != nil {
		return err
	}
	defer term.Close()
	step := func(typed, want string) error {
		if _, err := io.WriteString(term, typed); err != nil {
			return err
		}
		for deadline := time.Now().Add(3 * time.Minute); !strings.Contains(term.Screen(),
			want); time.Sleep(10 * time.Millisecond) {
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
	if err := step("until stty size | grep '40 100'; do sleep 0.05; done; echo is$((40+2))\n",
		"40 100\r\nis42"); err != nil {
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

// CheckAttached attaches to a container that serves each line.
func CheckAttached(attached *exec.Cmd) error {
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

// AwaitForwarding starts a port forwarding and returns the local addresses by port of the pod.
func AwaitForwarding(t *testing.T, cmd *exec.Cmd, ports int) map[string]string {
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

// CheckEcho sends data to an address, closes its side for writing, and compares the response
// with the data or with its digest.
func CheckEcho(address string, size int64, digest bool) error {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Minute))
	sent, back := sha256.New(), sha256.New()
	sending := make(chan error, 1)
	go func() {
		_, err := io.Copy(conn, io.TeeReader(RandomData(size), sent))
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

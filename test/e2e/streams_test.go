package e2e

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/podstead/podstead/test/bed"
)

// talker is a pod with a container that serves on ports and one that reads its
// standard input.
func talker(name string) string {
	return `apiVersion: v1
kind: Pod
metadata: {name: ` + name + `, annotations: {kubectl.kubernetes.io/default-container: main}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
    - name: main
      image: ` + bed.BusyboxImage + `
      command: [sh, -c, "nc -lk -p 7001 -e cat & nc -lk -p 7002 -e sha256sum & trap 'exit 0' TERM; sleep 100000 & wait"]
    - {name: reader, image: ` + bed.BusyboxImage + `, stdin: true, command: [sh, -c, "while read line; do echo got $line; done; sleep 100000"]}
`
}

// shapes are the ways in which kubectl streams.
var shapes = map[string][]string{
	"WebSocket": {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS=true", "KUBECTL_PORT_FORWARD_WEBSOCKETS=true"},
	"SPDY":      {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS=false", "KUBECTL_PORT_FORWARD_WEBSOCKETS=false"},
}

// noise is reproducible and does not compress.
func noise(size int64) io.Reader {
	return io.LimitReader(rand.NewChaCha8([32]byte{1}), size)
}

// through sends noise through a command and compares what comes back.
func through(cmd *exec.Cmd, size int64) error {
	sent, back := sha256.New(), sha256.New()
	var errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = io.TeeReader(noise(size), sent), back, &errs
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w: %s", err, errs.String())
	}
	if !bytes.Equal(sent.Sum(nil), back.Sum(nil)) {
		return errors.New("what came back differs from what was sent")
	}
	return nil
}

// A real kubectl gets into containers, over each protocol that it speaks.
func TestKubectlStreams(t *testing.T) {
	each(t, func(t *testing.T, n *node) {
		n.put("web.yaml", talker("web"))
		n.start()
		n.awaitReady("web")
		web := n.PodName("web")
		for shape, env := range shapes {
			k := newKubectl(n)
			command := func(args ...string) *exec.Cmd {
				cmd := k.command(t.Context(), args...)
				cmd.Env = append(cmd.Env, env...)
				return cmd
			}
			var out, errs bytes.Buffer
			cmd := command("exec", web, "--", "sh", "-c", "echo out; echo err >&2; exit 7")
			cmd.Stdout, cmd.Stderr = &out, &errs
			err := cmd.Run()
			if code := cmd.ProcessState.ExitCode(); code != 7 || out.String() != "out\n" || !strings.HasPrefix(errs.String(), "err\n") {
				t.Errorf("%s: exec ends with %d (%v), %q, %q", shape, code, err, out.String(), errs.String())
			}
			begun := time.Now()
			if err := through(command("exec", "-i", web, "--", "cat"), 20<<20); err != nil {
				t.Errorf("%s: exec -i cat: %v", shape, err)
			}
			t.Logf("%s: 20 MiB through cat in %v", shape, time.Since(begun))
			if text, err := command("exec", web, "--", "/nothing").CombinedOutput(); err == nil || !strings.Contains(string(text), "/nothing") {
				t.Errorf("%s: exec of nothing: %v, %s", shape, err, text)
			}
			if text, err := command("exec", web, "-c", "none", "--", "true").CombinedOutput(); err == nil || !strings.Contains(string(text), "none") {
				t.Errorf("%s: exec in no container: %v, %s", shape, err, text)
			}
		}
	})
}

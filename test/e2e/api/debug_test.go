package api

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// Ephemeral containers that podstead and both kubectls add to a static pod see the processes of their
// target, outlive the daemon, change nothing else of the pod, and are gone when it is restarted.
func TestDebug(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.WriteManifest("web.yaml", harness.ScriptPod("web", "x", 10, "trap 'exit 0' TERM; sleep 54321 & wait"))
		manifest, err := os.ReadFile(filepath.Join(n.Manifests, "web.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		n.OwnPort()
		n.MustStart()
		main := n.AwaitRunning("web")
		uid := n.AwaitReady("web").UID
		podstead := func(code int, words []string, args ...string) {
			t.Helper()
			cmd := n.Command(append(args[:1:1], append([]string{"--api-socket", n.Socket()}, args[1:]...)...)...)
			cmd.Stdin = strings.NewReader("cat /proc/1/cmdline; echo; exit 7\n")
			out, _ := cmd.CombinedOutput()
			out = bytes.ReplaceAll(out, []byte{0}, []byte{' '})
			if got := cmd.ProcessState.ExitCode(); got != code {
				t.Errorf("podstead %q: exit code %d\n%s", args, got, out)
			}
			for _, word := range words {
				if !strings.Contains(string(out), word) {
					t.Errorf("podstead %q: no %q in\n%s", args, word, out)
				}
			}
		}
		image := []string{"--image", testbed.BusyboxImage}
		podstead(0, []string{"sleep 54321"},
			append([]string{"debug", "web", "--target", "main", "-c", "list", "--attach"}, append(image, "--", "ps")...)...)
		podstead(7, []string{"sleep 54321", "ended with code 7"},
			append([]string{"debug", "web", "--target", "main", "-c", "shell", "-i"}, append(image, "--", "sh")...)...)
		podstead(0, []string{"00000000a80435fb"},
			append([]string{"debug", "web", "-c", "caps", "--profile", "netadmin", "--attach"},
				append(image, "--", "grep", "CapEff", "/proc/self/status")...)...)
		podstead(0, []string{"container watch added"},
			append([]string{"debug", "web", "--target", "main", "-c", "watch"}, append(image, "--", "sleep", "43210")...)...)
		podstead(1, []string{"spec.ephemeralContainers[4].name", "is a duplicate"},
			append([]string{"debug", "web", "-c", "main"}, image...)...)

		admin := harness.NewKubectl(n, "--role", "edit")
		for name, binary := range map[string]string{"new": testbed.Kubectl(), "old": testbed.DebianKubectl()} {
			k := *admin
			k.Binary = binary
			args := append([]string{"debug", "web", "--target", "main", "-i"}, image...)
			if name == "new" {
				args = append(args, "-c", name)
			} else {
				args = append(args, "--container", name)
			}
			// The old kubectl sends the version that it has read, and does not try again if the status
			// of the pod has changed meanwhile.
			n.Await("kubectl debug ("+name+") adds its container", func() error {
				cmd := k.Command(t.Context(), append(args, "--", "sh")...)
				// The input stays open: the runtime detaches a client whose input has ended.
				input, end, err := os.Pipe()
				if err != nil {
					t.Fatal(err)
				}
				if _, err := end.WriteString("cat /proc/1/cmdline; echo; exit\n"); err != nil {
					t.Fatal(err)
				}
				cmd.Stdin = input
				out, err := cmd.CombinedOutput()
				_, _ = end.Close(), input.Close() // kubectl has ended
				if err != nil && strings.Contains(string(out), "has changed since resourceVersion") {
					return fmt.Errorf("%w: %s", err, out)
				}
				if text := string(bytes.ReplaceAll(out, []byte{0}, []byte{' '})); err != nil ||
					!strings.Contains(text, "sleep 54321") {
					t.Errorf("kubectl debug (%s): %v\n%s", name, err, text)
				}
				return nil
			})
		}
		admin.Must([]string{"sleep 54321"}, "logs", n.PodName("web"), "-c", "list")
		admin.Must([]string{"Ephemeral Containers:", "watch:", "EphemeralContainerAdded", "by podstead-edit"}, "describe",
			"pod", n.PodName("web"))
		if out, err := admin.Run("debug", "web", "--profile", "sysadmin", "--image", testbed.BusyboxImage, "-c",
			"no"); err == nil || !strings.Contains(out, "securityContext.privileged") {
			t.Errorf("a privileged container: %v\n%s", err, out)
		}
		reader := harness.NewKubectl(n, "--role", "exec")
		if out, err := reader.Run("debug", "web", "--image", testbed.BusyboxImage, "-c", "no"); err == nil ||
			!strings.Contains(out, "access class write") {
			t.Errorf("with the role exec: %v\n%s", err, out)
		}

		states := func() string {
			pod := n.AwaitReady("web")
			text := ""
			for i, c := range pod.Status.EphemeralContainerStatuses {
				text += pod.Spec.EphemeralContainers[i].Name + "=" + stateOf(c) + " "
			}
			return text
		}
		n.Await("the states of the ephemeral containers", func() error {
			got := states()
			for _, want := range []string{"list=exit 0 ", "shell=exit 7 ", "caps=exit 0 ", "watch=running ", "new=exit 0 ",
				"old=exit 0 "} {
				if !strings.Contains(got, want) {
					return fmt.Errorf("no %q in %q", want, got)
				}
			}
			return nil
		})
		before, watch := states(), n.AwaitContainer("web", "watch")
		n.Restart() // kill -9
		if after := states(); after != before {
			t.Errorf("after kill -9: %s\nbefore: %s", after, before)
		}
		if err := n.Stop(); err != nil {
			t.Fatal(err)
		}
		n.MustStart()
		if after := states(); after != before {
			t.Errorf("after a restart: %s\nbefore: %s", after, before)
		}
		if now := n.AwaitContainer("web", "watch"); now != watch || !harness.ProcessExists(watch.Pid) {
			t.Errorf("the ephemeral container %+v became %+v", watch, now)
		}
		n.MustStillRun("web", main)
		if text, err := os.ReadFile(filepath.Join(n.Manifests, "web.yaml")); err != nil || !bytes.Equal(text, manifest) {
			t.Errorf("the manifest was changed: %v\n%s", err, text)
		}
		if now := n.AwaitReady("web"); now.UID != uid || now.Status.ContainerStatuses[0].RestartCount != 0 {
			t.Errorf("the pod was changed: %s, %+v", now.UID, now.Status.ContainerStatuses)
		}
		podstead(0, []string{"sleep 54321"}, "exec", "web", "-c", "watch", "--", "cat", "/proc/1/cmdline")

		podstead(0, nil, "restart", "web", "--wait")
		n.AwaitStatus("web", "no ephemeral containers", func(p v1.Pod) error {
			if len(p.Spec.EphemeralContainers)+len(p.Status.EphemeralContainerStatuses) > 0 {
				return errors.New("there are some")
			}
			return nil
		})
		if harness.ProcessExists(watch.Pid) {
			t.Error("an ephemeral container outlived its pod")
		}
	})
}

// stateOf returns the state of a container in one word.
func stateOf(c v1.ContainerStatus) string {
	switch {
	case c.State.Running != nil:
		return "running"
	case c.State.Terminated != nil:
		return fmt.Sprint("exit ", c.State.Terminated.ExitCode)
	}
	return "waiting"
}

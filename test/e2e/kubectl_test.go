package e2e

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podstead/podstead/test/testbed"
)

// kubectl runs the real kubectl against a daemon.
type kubectl struct {
	n      *node
	config string
	// binary is another kubectl than the current one.
	binary string
	// env is the additional environment.
	env []string
}

// newKubectl gets a kubeconfig from a running daemon.
func newKubectl(n *node, more ...string) *kubectl {
	n.t.Helper()
	k := &kubectl{n: n, config: filepath.Join(n.t.TempDir(), "config")}
	args := append([]string{"kubeconfig", "--api-socket", n.Socket(), "--output", k.config}, more...)
	if out, err := n.Command(args...).CombinedOutput(); err != nil {
		n.t.Fatalf("podstead %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	n.hasKubeconfig = true
	return k
}

// command returns a command that runs kubectl.
func (k *kubectl) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, cmp.Or(k.binary, testbed.Kubectl()), append([]string{"--kubeconfig", k.config}, args...)...)
	cmd.Env = append(append(os.Environ(), "HOME="+filepath.Dir(k.config)), k.env...)
	return cmd
}

// run runs kubectl and returns its output.
func (k *kubectl) run(args ...string) (string, error) {
	k.n.t.Helper()
	out, err := k.command(k.n.t.Context(), args...).CombinedOutput()
	return string(out), err
}

// must runs kubectl and checks that the output contains each word.
func (k *kubectl) must(words []string, args ...string) string {
	k.n.t.Helper()
	out, err := k.run(args...)
	if err != nil {
		k.n.t.Errorf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	for _, w := range words {
		if !strings.Contains(out, w) {
			k.n.t.Errorf("kubectl %s: no %q in:\n%s", strings.Join(args, " "), w, out)
		}
	}
	return out
}

// TestKubectl uses a real kubectl as users do.
func TestKubectl(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		n.writeManifest("web.yaml", `apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: main, image: `+testbed.BusyboxImage+`, command: [sh, -c, "echo hello from web; sleep 100000"]}]
`)
		n.writeManifest("objects.yaml", `apiVersion: v1
kind: ConfigMap
metadata: {name: site, namespace: other}
data: {color: red}
---
apiVersion: v1
kind: Secret
metadata: {name: login}
stringData: {password: hunter2}
`)
		n.writeManifest("away.yaml", strings.Replace(sleepPod("away", "x"), "name: away\n", "name: away\n  namespace: other\n", 1))
		n.ownPort()
		n.start()
		n.awaitReady("web")
		k := newKubectl(n)
		web := n.PodName("web")
		k.must([]string{"condition met"}, "wait", "--for=condition=Ready", "pod/"+web, "--timeout=5m")
		n.awaitReady("away")
		n.await("the container has printed", func() error {
			out, err := k.run("logs", web)
			if err == nil && !strings.Contains(out, "hello from web") {
				err = fmt.Errorf("the log is %q", out)
			}
			return err
		})
		k.must([]string{"NAMESPACE", "READY", "STATUS", "RESTARTS", "AGE", web, "1/1", "Running", n.PodName("away"), "other"}, "get", "pods", "-A")
		k.must([]string{"NODE", "NOMINATED NODE", n.Name}, "get", "pods", "-o", "wide")
		if out := k.must([]string{"pod/" + web}, "get", "pods", "-l", "app=web", "-o", "name"); strings.Contains(out, "away") {
			t.Errorf("the selector matched too many pods: %s", out)
		}
		k.must([]string{"web"}, "get", "pod", web, "-o", "jsonpath={.metadata.labels.app}")
		k.must([]string{"kind: Pod", "hello from web"}, "get", "pod", web, "-o", "yaml")
		k.must([]string{"Ready", "hello from web", "Started", "QoS Class"}, "describe", "pod", web)
		k.must([]string{"hello from web"}, "logs", web)
		k.must([]string{"Started", "pod/" + web}, "get", "events")
		k.must([]string{"Started", "Pod/" + web}, "events")
		k.must([]string{n.Name, "Ready"}, "get", "nodes")
		for _, binary := range []string{testbed.Kubectl(), testbed.DebianKubectl()} {
			of := *k
			of.binary = binary
			out := of.must([]string{"Kernel Version", "Capacity", "HolderIdentity:  " + n.Name}, "describe", "node", n.Name)
			if strings.Contains(out, "Failed") || strings.Count(out, "Starting podstead") != 1 {
				t.Errorf("describe node:\n%s", out)
			}
			of.must([]string{"Pod", "FIELDS:", "timeoutSeconds", "<integer>"}, "explain", "pod.spec.containers.livenessProbe")
			of.must([]string{"podstead does not support deployments: convert it with podstead convert"}, "explain", "deployments")
		}
		k.must([]string{"default", "other", "Active"}, "get", "namespaces")
		k.must([]string{"pods", "po", "namespaces", "configmaps", "secrets"}, "api-resources")
		k.compareVerbs(web)
		k.checkErrors(web)
		k.must([]string{"KIND:       Pod", "FIELDS:", "periodSeconds", "<integer>", "How often (in seconds) to perform the probe"}, "explain", "pod.spec.containers.livenessProbe")
		k.must([]string{"KIND:       Node", "capacity"}, "explain", "node.status")
		k.must([]string{"yes"}, "auth", "can-i", "create", "pods", "--subresource=exec")
		k.must([]string{"podstead-admin"}, "auth", "whoami")
		k.must([]string{"pod/web unchanged"}, "apply", "-f", filepath.Join(n.Manifests, "web.yaml"))
		reader := newKubectl(n, "--role", "read", "--duration", "1h")
		reader.must([]string{web, "Running"}, "get", "pods")
		reader.must([]string{"hello from web"}, "logs", web)
		k.must([]string{"color: red"}, "get", "configmap", "site", "-n", "other", "-o", "yaml")
		k.must([]string{"password: aHVudGVyMg=="}, "get", "secret", "login", "-o", "yaml")
		if out := reader.must([]string{"name: login"}, "get", "secrets", "-A", "-o", "yaml"); strings.Contains(out, "aHVudGVy") {
			t.Errorf("a reader sees the data of a Secret: %s", out)
		}
		if out, err := reader.run("auth", "can-i", "create", "pods", "--subresource=exec"); err == nil || !strings.Contains(out, "no") {
			t.Errorf("a reader may write: %v, %s", err, out)
		}
		if out, err := reader.run("exec", web, "--", "id"); err == nil || !strings.Contains(out, "access class exec") {
			t.Errorf("a reader may exec: %v, %s", err, out)
		}
		// The port and the credentials survive a restart of the daemon.
		n.restart()
		n.awaitReady("web")
		k.must([]string{web, "1/1", "Running"}, "get", "pods")
		// A watch reports the pod's deletion and creation.
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		cmd := k.command(ctx, "get", "pods", "-w", "--output-watch-events")
		pipe, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			cancel()
			_ = cmd.Wait()
		}()
		lines := bufio.NewScanner(pipe)
		read := func(words ...string) {
			t.Helper()
			for lines.Scan() {
				found := true
				for _, w := range words {
					found = found && strings.Contains(lines.Text(), w)
				}
				if found {
					return
				}
			}
			t.Fatalf("the watch ended without %q: %v", words, errors.Join(lines.Err(), ctx.Err()))
		}
		read("ADDED", web, "Running")
		n.removeManifest("web.yaml")
		read("MODIFIED", web, "Terminating")
		read("DELETED", web)
		n.writeManifest("again.yaml", sleepPod("again", "x"))
		read("ADDED", n.PodName("again"))
		read("MODIFIED", n.PodName("again"), "1/1", "Running")
		if out, err := n.Command("kubeconfig", "--api-socket", n.Socket(), "--revoke").CombinedOutput(); err != nil {
			t.Errorf("revoke: %v, %s", err, out)
		}
		if out, err := k.run("get", "pods"); err == nil {
			t.Errorf("a revoked kubeconfig still works: %s", out)
		}
	})
}

package api

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// TestKubectl uses a real kubectl as users do.
func TestKubectl(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.WriteManifest("web.yaml", `apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: main, image: `+testbed.BusyboxImage+`, command: [sh, -c, "echo hello from web; sleep 100000"]}]
`)
		n.WriteManifest("objects.yaml", `apiVersion: v1
kind: ConfigMap
metadata: {name: site, namespace: other}
data: {color: red}
---
apiVersion: v1
kind: Secret
metadata: {name: login}
stringData: {password: hunter2}
`)
		n.WriteManifest("away.yaml", strings.Replace(harness.SleepPod("away", "x"), "name: away\n",
			"name: away\n  namespace: other\n", 1))
		n.OwnPort()
		n.MustStart()
		n.AwaitReady("web")
		k := harness.NewKubectl(n)
		web := n.PodName("web")
		k.Must([]string{"condition met"}, "wait", "--for=condition=Ready", "pod/"+web, "--timeout=5m")
		n.AwaitReady("away")
		n.Await("the container has printed", func() error {
			out, err := k.Run("logs", web)
			if err == nil && !strings.Contains(out, "hello from web") {
				err = fmt.Errorf("the log is %q", out)
			}
			return err
		})
		k.Must([]string{"NAMESPACE", "READY", "STATUS", "RESTARTS", "AGE", web, "1/1", "Running", n.PodName("away"), "other"},
			"get", "pods", "-A")
		k.Must([]string{"NODE", "NOMINATED NODE", n.Name}, "get", "pods", "-o", "wide")
		if out := k.Must([]string{"pod/" + web}, "get", "pods", "-l", "app=web", "-o", "name"); strings.Contains(out,
			"away") {
			t.Errorf("the selector matched too many pods: %s", out)
		}
		k.Must([]string{"web"}, "get", "pod", web, "-o", "jsonpath={.metadata.labels.app}")
		k.Must([]string{"kind: Pod", "hello from web"}, "get", "pod", web, "-o", "yaml")
		k.Must([]string{"Ready", "hello from web", "Started", "QoS Class"}, "describe", "pod", web)
		k.Must([]string{"hello from web"}, "logs", web)
		k.Must([]string{"Started", "pod/" + web}, "get", "events")
		k.Must([]string{"Started", "Pod/" + web}, "events")
		k.Must([]string{n.Name, "Ready"}, "get", "nodes")
		for _, binary := range []string{testbed.Kubectl(), testbed.DebianKubectl()} {
			of := *k
			of.Binary = binary
			out := of.Must([]string{"Kernel Version", "Capacity", "HolderIdentity:  " + n.Name}, "describe", "node", n.Name)
			if strings.Contains(out, "Failed") || strings.Count(out, "Starting podstead") != 1 {
				t.Errorf("describe node:\n%s", out)
			}
			of.Must([]string{"Pod", "FIELDS:", "timeoutSeconds", "<integer>"}, "explain", "pod.spec.containers.livenessProbe")
			of.Must([]string{"podstead does not support deployments: convert it with podstead convert"}, "explain",
				"deployments")
		}
		k.Must([]string{"default", "other", "Active"}, "get", "namespaces")
		k.Must([]string{"pods", "po", "namespaces", "configmaps", "secrets"}, "api-resources")
		compareVerbs(k, web)
		checkErrors(k, web)
		k.Must([]string{"KIND:       Pod", "FIELDS:", "periodSeconds", "<integer>",
			"How often (in seconds) to perform the probe"}, "explain", "pod.spec.containers.livenessProbe")
		k.Must([]string{"KIND:       Node", "capacity"}, "explain", "node.status")
		k.Must([]string{"yes"}, "auth", "can-i", "create", "pods", "--subresource=exec")
		k.Must([]string{"podstead-admin"}, "auth", "whoami")
		k.Must([]string{"pod/web unchanged"}, "apply", "-f", filepath.Join(n.Manifests, "web.yaml"))
		reader := harness.NewKubectl(n, "--role", "read", "--duration", "1h")
		reader.Must([]string{web, "Running"}, "get", "pods")
		reader.Must([]string{"hello from web"}, "logs", web)
		k.Must([]string{"color: red"}, "get", "configmap", "site", "-n", "other", "-o", "yaml")
		k.Must([]string{"password: aHVudGVyMg=="}, "get", "secret", "login", "-o", "yaml")
		if out := reader.Must([]string{"name: login"}, "get", "secrets", "-A", "-o", "yaml"); strings.Contains(out,
			"aHVudGVy") {
			t.Errorf("a reader sees the data of a Secret: %s", out)
		}
		if out, err := reader.Run("auth", "can-i", "create", "pods", "--subresource=exec"); err == nil ||
			!strings.Contains(out, "no") {
			t.Errorf("a reader may write: %v, %s", err, out)
		}
		if out, err := reader.Run("exec", web, "--", "id"); err == nil || !strings.Contains(out, "access class exec") {
			t.Errorf("a reader may exec: %v, %s", err, out)
		}
		// The port and the credentials survive a restart of the daemon.
		n.Restart()
		n.AwaitReady("web")
		k.Must([]string{web, "1/1", "Running"}, "get", "pods")
		// A watch reports the pod's deletion and creation.
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		cmd := k.Command(ctx, "get", "pods", "-w", "--output-watch-events")
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
		n.RemoveManifest("web.yaml")
		read("MODIFIED", web, "Terminating")
		read("DELETED", web)
		n.WriteManifest("again.yaml", harness.SleepPod("again", "x"))
		read("ADDED", n.PodName("again"))
		read("MODIFIED", n.PodName("again"), "1/1", "Running")
		if out, err := n.Command("kubeconfig", "--api-socket", n.Socket(), "--revoke").CombinedOutput(); err != nil {
			t.Errorf("revoke: %v, %s", err, out)
		}
		if out, err := k.Run("get", "pods"); err == nil {
			t.Errorf("a revoked kubeconfig still works: %s", out)
		}
	})
}

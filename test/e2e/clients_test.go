package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/podstead/podstead/test/testbed"
)

// clientPod is a pod with a claim and a class, and a Secret next to it.
const clientPod = `apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 1000
---
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  terminationGracePeriodSeconds: 1
  priorityClassName: high
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
  containers:
  - name: main
    image: ` + testbed.BusyboxImage + `
    command: [sh, -c, "echo hello; sleep 100000"]
    volumeMounts: [{name: data, mountPath: /data}]
`

// TestNewcomersKubectl makes the calls with which people get to know a cluster, with the current kubectl
// and the one of Debian.
func TestNewcomersKubectl(t *testing.T) {
	t.Parallel()
	n := newNode(t, sharedRuntime(t, testbed.Containerd24))
	port := strconv.Itoa(hostPort())
	n.Args = append(n.Args, "--address", "0.0.0.0", "--port", port)
	n.writeManifest("web.yaml", clientPod)
	n.start()
	n.awaitReady("web")
	current := newKubectl(n)
	web, proxy := n.PodName("web"), "/api/v1/nodes/"+n.Name+"/proxy"
	for _, binary := range []string{testbed.Kubectl(), testbed.DebianKubectl()} {
		k := *current
		k.binary = binary
		// Each kubectl has a cache of its own of what it has discovered.
		k.env = []string{"HOME=" + t.TempDir()}
		k.must([]string{"is running at", "https://127.0.0.1:" + port}, "cluster-info")
		k.must([]string{`"kind": "NodeList"`, `"kind": "DeploymentList"`, "==== START logs for container main of pod default/" + web + " ====", "hello"}, "cluster-info", "dump")
		k.must([]string{"pod/" + web}, "get", "all", "-A")
		k.must([]string{"Server Version", "1.36"}, "version")
		k.must([]string{"Bound", "default.data", "1Gi", "RWO"}, "get", "pvc")
		if out := k.must([]string{"default.data", "Retain", "Bound", "default/data"}, "get", "pv"); strings.Contains(out, "<unknown>") {
			t.Errorf("the creation time of a claim is not known: %s", out)
		}
		k.must([]string{"Capacity:      1Gi", "Access Modes:  RWO", web}, "describe", "pvc", "data")
		k.must([]string{"high", "1000"}, "get", "priorityclasses")
		n.await("the usage of the pod is measured", func() error {
			out, err := k.run("top", "pod", "web")
			if err != nil || !strings.Contains(out, "web") {
				err = fmt.Errorf("%w, %s", err, out)
			}
			return err
		})
		k.must([]string{"No resources found"}, "get", "services,serviceaccounts,runtimeclasses,deployments,jobs,ingresses,storageclasses,roles", "-A")
		k.must([]string{"[+]ping ok", "[+]syncloop ok", "readyz check passed"}, "get", "--raw", "/readyz?verbose")
		k.must([]string{"ok"}, "get", "--raw", "/livez")
		k.must([]string{"ok"}, "get", "--raw", proxy+"/healthz")
		k.must([]string{"kubelet_running_pods"}, "get", "--raw", proxy+"/metrics")
		k.must([]string{`"kind":"PodList"`, web}, "get", "--raw", proxy+"/pods")
		k.must([]string{"condition met"}, "wait", "--for=condition=Ready", "pod/web", "--timeout=5m")
		k.must([]string{"Name:", "hello"}, "describe", "pod", "web")
		k.must([]string{"hello"}, "logs", "web")
		k.must([]string{"uid=0"}, "exec", "web", "--", "id")
		meant, instead := "did you mean "+web+"?", "use podstead rollout and podstead restart with web"
		for _, call := range []struct{ words, args string }{
			{meant, "get pod wbe"}, {meant, "describe pod wbe"}, {meant, "logs wbe"}, {meant, "exec wbe -- id"}, {meant, "delete pod wbe"},
			{meant, "wait --for=condition=Ready pod/wbe --timeout=1m"}, {meant, "label pod wbe a=b"},
			{"convert it with podstead convert", "create deployment web --image=busybox"},
			{"podstead does not support jobs: convert it with podstead convert", "create job web --image=busybox"},
			{instead, "rollout restart deployment/web"}, {instead, "rollout status deployment/web"}, {instead, "rollout undo deployment/web"},
			{"server-side apply is not supported, because a manifest does not record which client set a field; use kubectl apply without --server-side", "apply --server-side -f " + filepath.Join(n.Manifests, "web.yaml")},
			{`nodes "other" not found`, "get --raw /api/v1/nodes/other/proxy/healthz"},
			{"deleted one by one", "delete --raw /api/v1/namespaces/default/pods"},
		} {
			if out, err := k.run(strings.Fields(call.args)...); err == nil || !strings.Contains(out, call.words) {
				t.Errorf("kubectl %s: %v, %s\nwant %s", call.args, err, out, call.words)
			}
		}
	}
	current.must([]string{"podstead does not support deployments: convert it with podstead convert"}, "explain", "deployment")
	current.must([]string{"globalDefault"}, "explain", "priorityclass")
	current.checkRights()
	checkKubeconfigs(n, port)
}

// checkRights compares kubectl auth can-i with what requests of each role get.
func (k *kubectl) checkRights() {
	t := k.n.t
	t.Helper()
	for _, role := range []string{"read", "edit"} {
		own := newKubectl(k.n, "--role", role)
		own.env = k.env
		for _, c := range []struct{ question, roles string }{
			{"get pods --subresource=log", "read edit"},
			{"create pods --subresource=exec", "edit"},
			{"create pods --subresource=eviction", ""},
			{"get nodes --subresource=proxy", "read edit"},
			{"create nodes --subresource=proxy", "edit"},
			{"list deployments.apps", "read edit"},
			{"create deployments.apps", ""},
			{"get /logs", ""},
			{"* *", "edit"},
		} {
			want := strings.Contains(" "+c.roles+" ", " "+role+" ")
			out, err := own.run(append([]string{"auth", "can-i"}, strings.Fields(c.question)...)...)
			if (err == nil) != want || strings.HasPrefix(out, "yes") != want && !strings.Contains(out, "\nyes") {
				t.Errorf("%s: can-i %s: %v, %s", role, c.question, err, out)
			}
		}
		own.must([]string{"pods/log", "[get]", "deployments.apps", "[/livez]"}, "auth", "can-i", "--list")
		// The proxy of the node grants no more than the endpoints.
		for path, roles := range map[string]string{"/configz": "read edit", "/logs/": ""} {
			out, err := own.run("get", "--raw", "/api/v1/nodes/"+k.n.Name+"/proxy"+path)
			if want := strings.Contains(roles, role); (err == nil) != want {
				t.Errorf("%s: %s through the proxy: %v, %.200s", role, path, err, out)
			}
		}
	}
}

// checkKubeconfigs uses one file with the kubeconfigs of several roles, and one for another machine,
// whose URL has a name that is not in the certificate.
func checkKubeconfigs(n *node, port string) {
	t := n.t
	t.Helper()
	k := &kubectl{n: n, config: filepath.Join(t.TempDir(), "config")}
	if err := os.WriteFile(k.config, []byte("apiVersion: v1\nkind: Config\ncurrent-context: prod\ncontexts: [{name: prod, context: {cluster: prod, user: me, namespace: shop}}]\nusers: [{name: me, user: {token: x}}]\nclusters: [{name: prod, cluster: {server: 'https://prod'}}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, role := range []string{"read", "edit"} {
		if out, err := n.Command("kubeconfig", "--api-socket", n.Socket(), "--role", role, "--output", k.config).CombinedOutput(); err != nil {
			t.Fatalf("%v, %s", err, out)
		}
	}
	prefix := "podstead-" + n.Name + "-"
	k.must([]string{"prod", prefix + "read", prefix + "edit"}, "config", "get-contexts", "-o", "name")
	k.must([]string{"prod"}, "config", "current-context")
	for role, want := range map[string]string{"read": "no", "edit": "yes"} {
		if out, _ := k.run("--context", prefix+role, "auth", "can-i", "create", "pods"); !strings.HasPrefix(out, want) {
			t.Errorf("%s may create pods: %s", role, out)
		}
	}
	// This address is not in the certificate.
	other := newKubectl(n, "--role", "read", "--server", "https://127.0.0.2:"+port)
	other.must([]string{n.PodName("web")}, "get", "pods")
	other.must([]string{"https://127.0.0.2:" + port, "node.podstead.internal"}, "config", "view")
	other.binary = testbed.DebianKubectl()
	other.must([]string{n.PodName("web")}, "get", "pods")
	if out, err := other.run("--tls-server-name", "127.0.0.2", "get", "pods"); err == nil || !strings.Contains(out, "certificate") {
		t.Errorf("without the name of the kubeconfig: %v, %s", err, out)
	}
}

package api

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/podstead/podstead/test/e2e/harness"
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
	n := harness.NewNode(t, harness.SharedRuntime(t, testbed.Containerd24))
	port := strconv.Itoa(harness.HostPort())
	n.Args = append(n.Args, "--address", "0.0.0.0", "--port", port)
	n.WriteManifest("web.yaml", clientPod)
	n.MustStart()
	n.AwaitReady("web")
	current := harness.NewKubectl(n)
	web, proxy := n.PodName("web"), "/api/v1/nodes/"+n.Name+"/proxy"
	for _, binary := range []string{testbed.Kubectl(), testbed.DebianKubectl()} {
		k := *current
		k.Binary = binary
		// Each kubectl has a cache of its own of what it has discovered.
		k.Env = []string{"HOME=" + t.TempDir()}
		k.Must([]string{"is running at", "https://127.0.0.1:" + port}, "cluster-info")
		k.Must([]string{`"kind": "NodeList"`, `"kind": "DeploymentList"`,
			"==== START logs for container main of pod default/" + web + " ====", "hello"}, "cluster-info", "dump")
		k.Must([]string{"pod/" + web}, "get", "all", "-A")
		k.Must([]string{"Server Version", "1.36"}, "version")
		k.Must([]string{"Bound", "default.data", "1Gi", "RWO"}, "get", "pvc")
		if out := k.Must([]string{"default.data", "Retain", "Bound", "default/data"}, "get", "pv"); strings.Contains(out,
			"<unknown>") {
			t.Errorf("the creation time of a claim is not known: %s", out)
		}
		k.Must([]string{"Capacity:      1Gi", "Access Modes:  RWO", web}, "describe", "pvc", "data")
		k.Must([]string{"high", "1000"}, "get", "priorityclasses")
		n.Await("the usage of the pod is measured", func() error {
			out, err := k.Run("top", "pod", "web")
			if err != nil || !strings.Contains(out, "web") {
				err = fmt.Errorf("%w, %s", err, out)
			}
			return err
		})
		k.Must([]string{"No resources found"}, "get",
			"services,serviceaccounts,runtimeclasses,deployments,jobs,ingresses,storageclasses,roles", "-A")
		k.Must([]string{"[+]ping ok", "[+]syncloop ok", "readyz check passed"}, "get", "--raw", "/readyz?verbose")
		k.Must([]string{"ok"}, "get", "--raw", "/livez")
		k.Must([]string{"ok"}, "get", "--raw", proxy+"/healthz")
		k.Must([]string{"kubelet_running_pods"}, "get", "--raw", proxy+"/metrics")
		k.Must([]string{`"kind":"PodList"`, web}, "get", "--raw", proxy+"/pods")
		k.Must([]string{"condition met"}, "wait", "--for=condition=Ready", "pod/web", "--timeout=5m")
		k.Must([]string{"Name:", "hello"}, "describe", "pod", "web")
		k.Must([]string{"hello"}, "logs", "web")
		k.Must([]string{"uid=0"}, "exec", "web", "--", "id")
		meant, instead := "did you mean "+web+"?", "use podstead rollout and podstead restart with web"
		for _, call := range []struct{ words, args string }{
			{meant, "get pod wbe"}, {meant, "describe pod wbe"}, {meant, "logs wbe"}, {meant, "exec wbe -- id"},
			{meant, "delete pod wbe"},
			{meant, "wait --for=condition=Ready pod/wbe --timeout=1m"}, {meant, "label pod wbe a=b"},
			{"convert it with podstead convert", "create deployment web --image=busybox"},
			{"podstead does not support jobs: convert it with podstead convert", "create job web --image=busybox"},
			{instead, "rollout restart deployment/web"}, {instead, "rollout status deployment/web"},
			{instead, "rollout undo deployment/web"},
			{"server-side apply is not supported, because a manifest does not record which client set a field; use kubectl " +
				"apply without --server-side", "apply --server-side -f " + filepath.Join(n.Manifests, "web.yaml")},
			{`nodes "other" not found`, "get --raw /api/v1/nodes/other/proxy/healthz"},
			{"deleted one by one", "delete --raw /api/v1/namespaces/default/pods"},
		} {
			if out, err := k.Run(strings.Fields(call.args)...); err == nil || !strings.Contains(out, call.words) {
				t.Errorf("kubectl %s: %v, %s\nwant %s", call.args, err, out, call.words)
			}
		}
	}
	current.Must([]string{"podstead does not support deployments: convert it with podstead convert"}, "explain",
		"deployment")
	current.Must([]string{"globalDefault"}, "explain", "priorityclass")
	checkRights(current)
	checkKubeconfigs(n, port)
}

// checkRights compares kubectl auth can-i with what requests of each role get.
func checkRights(k *harness.Kubectl) {
	t := k.Node.T
	t.Helper()
	for _, role := range []string{"read", "edit"} {
		own := harness.NewKubectl(k.Node, "--role", role)
		own.Env = k.Env
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
			out, err := own.Run(append([]string{"auth", "can-i"}, strings.Fields(c.question)...)...)
			if (err == nil) != want || strings.HasPrefix(out, "yes") != want && !strings.Contains(out, "\nyes") {
				t.Errorf("%s: can-i %s: %v, %s", role, c.question, err, out)
			}
		}
		own.Must([]string{"pods/log", "[get]", "deployments.apps", "[/livez]"}, "auth", "can-i", "--list")
		// The proxy of the node grants no more than the endpoints.
		for path, roles := range map[string]string{"/configz": "read edit", "/logs/": ""} {
			out, err := own.Run("get", "--raw", "/api/v1/nodes/"+k.Node.Name+"/proxy"+path)
			if want := strings.Contains(roles, role); (err == nil) != want {
				t.Errorf("%s: %s through the proxy: %v, %.200s", role, path, err, out)
			}
		}
	}
}

// checkKubeconfigs uses one file with the kubeconfigs of several roles, and one for another machine,
// whose URL has a name that is not in the certificate.
func checkKubeconfigs(n *harness.Node, port string) {
	t := n.T
	t.Helper()
	k := &harness.Kubectl{Node: n, Config: filepath.Join(t.TempDir(), "config")}
	if err := os.WriteFile(k.Config, []byte("apiVersion: v1\nkind: Config\ncurrent-context: prod\ncontexts: [{name: "+
		"prod, context: {cluster: prod, user: me, namespace: shop}}]\nusers: [{name: me, user: {token: x}}]\nclusters: "+
		"[{name: prod, cluster: {server: 'https://prod'}}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, role := range []string{"read", "edit"} {
		if out, err := n.Command("kubeconfig", "--api-socket", n.Socket(), "--role", role, "--output",
			k.Config).CombinedOutput(); err != nil {
			t.Fatalf("%v, %s", err, out)
		}
	}
	prefix := "podstead-" + n.Name + "-"
	k.Must([]string{"prod", prefix + "read", prefix + "edit"}, "config", "get-contexts", "-o", "name")
	k.Must([]string{"prod"}, "config", "current-context")
	for role, want := range map[string]string{"read": "no", "edit": "yes"} {
		if out, _ := k.Run("--context", prefix+role, "auth", "can-i", "create", "pods"); !strings.HasPrefix(out, want) {
			t.Errorf("%s may create pods: %s", role, out)
		}
	}
	// This address is not in the certificate.
	other := harness.NewKubectl(n, "--role", "read", "--server", "https://127.0.0.2:"+port)
	other.Must([]string{n.PodName("web")}, "get", "pods")
	other.Must([]string{"https://127.0.0.2:" + port, "node.podstead.internal"}, "config", "view")
	other.Binary = testbed.DebianKubectl()
	other.Must([]string{n.PodName("web")}, "get", "pods")
	if out, err := other.Run("--tls-server-name", "127.0.0.2", "get", "pods"); err == nil ||
		!strings.Contains(out, "certificate") {
		t.Errorf("without the name of the kubeconfig: %v, %s", err, out)
	}
}

package cluster

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// reviewToken returns the user that the API server authenticates by a token.
func reviewToken(a *harness.Admin, token string, audiences ...string) (user string, err error) {
	review := authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: audiences}}
	review.APIVersion, review.Kind = "authentication.k8s.io/v1", "TokenReview"
	text, err := json.Marshal(review)
	if err != nil {
		return "", err
	}
	out, err := a.Kubectl("create", "-o", "json", "-f", a.File(string(text)))
	if err != nil {
		return "", err
	}
	if err := json.Unmarshal([]byte(out), &review); err != nil {
		return "", err
	}
	if !review.Status.Authenticated {
		return "", fmt.Errorf("not authenticated: %s", review.Status.Error)
	}
	return review.Status.User.Username + " " +
		strings.Join(review.Status.User.Extra["authentication.kubernetes.io/pod-name"], ","), nil
}

// The objects that the cluster's pods refer to are in their containers: ConfigMaps, Secrets,
// tokens, services, the cluster's DNS, and images that need credentials. Missing objects are
// awaited, changes are applied, and cached objects stay available while the API server is
// down. Static pods have no access to them.
func TestClusterObjects(t *testing.T) {
	t.Parallel()
	n := harness.NewNode(t, harness.SharedRuntime(t, testbed.Containerd24))
	ctx := t.Context()
	c, a, kubeconfig := harness.NewCluster(ctx, n)
	n.Args = append(n.Args, "--kubeconfig", kubeconfig, "--cluster-dns", "10.96.0.10", "--cluster-domain", "cluster.local")
	repository, password := "cluster-"+n.Name+"/app", "pass-word-"+n.Name
	private, _ := n.Push(repository)
	harness.Registry.Protect(repository, "bob", password)
	// Objects that a cluster's controllers create.
	a.Create("apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: default}\nimagePullSecrets: [{name: login}]\n---\n" +
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kube-root-ca.crt}\ndata: {ca.crt: the-root}\n---\n" +
		harness.PullSecret("login", harness.DockerConfig("https://index.docker.io/v1/", "bob", password)) + "---\n" +
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: conf}\ndata: {color: red, size: big}\n---\n" +
		"apiVersion: v1\nkind: Secret\nmetadata: {name: word}\nstringData: {word: hush}\n---\n" +
		"apiVersion: v1\nkind: Secret\nmetadata: {name: fixed}\nimmutable: true\nstringData: {key: stone}\n---\n" +
		"apiVersion: v1\nkind: Service\nmetadata: {name: the-db}\nspec: {clusterIP: 10.96.7.7, ports: [{name: sql, port: " +
		"5432}]}\n---\n" +
		"apiVersion: v1\nkind: Service\nmetadata: {name: headless}\nspec: {clusterIP: None, ports: [{port: 80}]}\n---\n" +
		"apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: usual}\nhandler: runc\n")
	n.WriteManifest("static.yaml", harness.SleepPod("static", "one"))
	n.MustStart()
	static := n.AwaitRunning("static")

	a.Create(n.ClusterPod("app", private, `runtimeClassName: usual
securityContext: {runAsUser: 1000, fsGroup: 2000}
volumes:
- {name: conf, configMap: {name: conf}}
- name: all
  projected:
    sources:
    - {secret: {name: word}}
    - {secret: {name: fixed}}
    - {secret: {name: none, optional: true}}
    - {downwardAPI: {items: [{path: name, fieldRef: {fieldPath: metadata.name}}]}}
    - {serviceAccountToken: {path: vault, audience: vault, expirationSeconds: 600}}
`, `env:
- {name: COLOR, valueFrom: {configMapKeyRef: {name: conf, key: color}}}
- {name: WORD, valueFrom: {secretKeyRef: {name: word, key: word}}}
- {name: ACCOUNT, valueFrom: {fieldRef: {fieldPath: spec.serviceAccountName}}}
- {name: DB, value: "at $(THE_DB_SERVICE_HOST)"}
envFrom: [{configMapRef: {name: conf}, prefix: C_}]
volumeMounts: [{name: conf, mountPath: /conf}, {name: all, mountPath: /all}]
`))
	app := n.AwaitRunning("app")
	const account = "/var/run/secrets/kubernetes.io/serviceaccount/"
	n.MustContain(app, map[string]string{
		"echo $COLOR $WORD $ACCOUNT $C_size":         "red hush default big",
		"echo $DB":                                   "at 10.96.7.7",
		"echo $THE_DB_SERVICE_PORT_SQL":              "5432",
		"echo $THE_DB_PORT_5432_TCP":                 "tcp://10.96.7.7:5432",
		"echo $KUBERNETES_SERVICE_HOST":              "10.96.0.1",
		"env | grep -c HEADLESS || true":             "0",
		"cat /conf/color":                            "red",
		"cat /all/word":                              "hush",
		"cat /all/key":                               "stone",
		"cat /all/name":                              n.PodName("app"),
		"stat -L -c '%a %u %g' /all/vault":           "640 1000 2000",
		"cat " + account + "ca.crt":                  "the-root",
		"cat " + account + "namespace":               "default",
		"grep ^search /etc/resolv.conf | cut -c1-60": "search default.svc.cluster.local svc.cluster.local cluster.l",
		"grep -m1 ^nameserver /etc/resolv.conf":      "nameserver 10.96.0.10",
		"stat -c %s /var/unique":                     "1048576",
	})
	want := "system:serviceaccount:default:default " + n.PodName("app")
	if user, err := reviewToken(a, n.Exec(app, "cat", account+"token")); user != want {
		t.Errorf("its token authenticates as %q (%v), want %q", user, err, want)
	}
	if user, err := reviewToken(a, n.Exec(app, "cat", "/all/vault"), "vault"); user != want {
		t.Errorf("its token for vault authenticates as %q (%v), want %q", user, err, want)
	}
	n.MustNotLog(password)
	n.MustNotLog(base64.StdEncoding.EncodeToString([]byte("bob:" + password)))

	// Changes are applied to running pods.
	a.Must("patch", "configmap", "conf", "--type=merge", "-p", `{"data": {"color": "blue"}}`)
	a.Must("patch", "secret", "word", "--type=merge", "-p", `{"stringData": {"word": "psst"}}`)
	n.AwaitExec(app, "bluepsst", "cat", "/conf/color", "/all/word")

	// Objects that are created later are awaited.
	a.Create(n.ClusterPod("late", testbed.BusyboxImage, "volumes: [{name: v, secret: {secretName: later}}]\n",
		"volumeMounts: [{name: v, mountPath: /v}]\n"))
	a.Create(n.ClusterPod("variable", testbed.BusyboxImage, "",
		"env: [{name: A, valueFrom: {secretKeyRef: {name: later, key: a}}}]\n"))
	n.AwaitEvent("late", "FailedMount", "Secret default/later not found: it does not exist in the cluster; create it in the cluster")
	n.AwaitStatus("variable", "it reports the missing object", func(p v1.Pod) error {
		for _, c := range p.Status.ContainerStatuses {
			if w := c.State.Waiting; w != nil && w.Reason == "CreateContainerConfigError" &&
				strings.Contains(w.Message, "Secret default/later does not exist in the cluster") {
				return nil
			}
		}
		return fmt.Errorf("%+v", p.Status.ContainerStatuses)
	})
	a.Must("create", "secret", "generic", "later", "--from-literal=a=came")
	n.MustContain(n.AwaitRunning("late"), map[string]string{"cat /v/a": "came"})
	n.MustContain(n.AwaitRunning("variable"), map[string]string{"echo $A": "came"})

	n.MustContain(static, map[string]string{
		"env | grep -c KUBERNETES || true":        "0",
		"ls /var/run/secrets 2>/dev/null | wc -l": "0",
	})

	// Without an API server, cached objects stay available.
	c.KillAPI()
	// Not from inside: the command may end with its container.
	if err := syscall.Kill(app.Pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	again := n.AwaitOther("app", app)
	n.MustContain(again, map[string]string{"echo $COLOR $WORD $KUBERNETES_SERVICE_HOST": "blue psst 10.96.0.1",
		"cat /all/word": "psst"})
	n.MustStillRun("static", static)
}

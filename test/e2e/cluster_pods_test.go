package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/test/bed"
)

// bound is a pod as the scheduler has bound it to the node. Its name ends like
// that of a static pod, so that all that is asked of pods by name serves. fields
// are further ones of the spec, script is what main runs.
func (n *node) bound(name, script, fields string) string {
	text := fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s, labels: {app: %s}}
spec:
  nodeName: %s
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: 10
  volumes:
  - {name: out, hostPath: {path: %s, type: DirectoryOrCreate}}
  - {name: labels, downwardAPI: {items: [{path: app, fieldRef: {fieldPath: "metadata.labels['app']"}}]}}
`, n.PodName(name), name, n.Name, n.outDir())
	for line := range strings.Lines(fields) {
		text += "  " + line
	}
	return text + fmt.Sprintf(`  containers:
  - name: main
    image: %s
    command: [sh, -c, %q]
    resources: {requests: {cpu: 10m, memory: 16Mi}, limits: {cpu: 100m, memory: 32Mi}}
    volumeMounts: [{name: out, mountPath: /out}, {name: labels, mountPath: /labels}]
`, bed.BusyboxImage, script)
}

// waits ends when asked to, and says so.
const waits = "trap 'sleep 1; touch /out/$HOSTNAME.asked; exit 0' TERM; while :; do sleep 0.1; done"

// create makes an object in the cluster.
func (a *admin) create(text string) {
	a.t.Helper()
	file := filepath.Join(a.t.TempDir(), "object.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		a.t.Fatal(err)
	}
	a.must("create", "-f", file)
}

// What the cluster binds to this node runs here, is shown there as it is, and
// ends when the cluster says so.
func TestClusterPods(t *testing.T) {
	t.Parallel()
	n := newNode(t, sharedRuntime(t, bed.Containerd24))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	_, a, kubeconfig := newCluster(ctx, n)
	n.Args = append(n.Args, "--kubeconfig", kubeconfig)
	a.must("create", "serviceaccount", "default")
	n.put("static.yaml", sleeper("static", "one"))
	n.start()
	static := n.awaitRunning("static")

	// One runs, and is shown as it is.
	a.create(n.bound("web", waits, ""))
	web := n.awaitRunning("web")
	if out := n.exec(web, "hostname"); out != n.PodName("web") {
		t.Errorf("hostname %q", out)
	}
	shown := a.mirror(n, "its status", "default", "web", ready)
	local := n.awaitReady("web")
	if st := shown.Status; local.UID != shown.UID || st.PodIP == "" || st.PodIP != local.Status.PodIP || st.StartTime == nil ||
		st.ObservedGeneration != shown.Generation || len(st.ContainerStatuses) != 1 || !strings.HasSuffix(st.ContainerStatuses[0].ContainerID, web.ID) {
		t.Errorf("the API has %+v, here is %+v", shown.Status, local.Status)
	}
	a.must("label", "pod", n.PodName("web"), "--overwrite", "app=other")
	n.await("the label is seen inside", func() error {
		if out := n.exec(web, "cat", "/labels/app"); out != "other" {
			return fmt.Errorf("%q", out)
		}
		return nil
	})

	// One that is deleted is asked to end, and goes when it has.
	a.must("delete", "pod", n.PodName("web"), "--wait=false")
	a.gone(n, "default", "web")
	if _, err := os.Stat(filepath.Join(n.outDir(), n.PodName("web")+".asked")); err != nil {
		t.Errorf("it went before it had ended: %v", err)
	}
	n.awaitGone("web")

	// One that has done its work is not run again.
	a.create(n.bound("job", "echo ran >> /out/job", "restartPolicy: Never\n"))
	a.mirror(n, "it has succeeded", "default", "job", func(p *v1.Pod) error {
		if p.Status.Phase != v1.PodSucceeded || len(p.Status.ContainerStatuses) != 1 || p.Status.ContainerStatuses[0].State.Terminated == nil {
			return fmt.Errorf("%+v", p.Status)
		}
		return nil
	})
	if count := n.lines("job"); count != 1 {
		t.Errorf("it ran %d times", count)
	}
	n.mustBe("static", static)
}

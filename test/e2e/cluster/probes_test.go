package cluster

import (
	"fmt"
	"os"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// With restartPolicy OnFailure, containers that a probe kills and that exit with 0 run again, and the API shows that: a
// status that shows such a container as terminated could not be left any more.
func TestProbeKillsContainerThatSucceeds(t *testing.T) {
	t.Parallel()
	n := harness.NewNode(t, harness.SharedRuntime(t, testbed.Containerd24))
	_, a, kubeconfig := harness.NewCluster(t.Context(), n)
	n.Args = append(n.Args, "--kubeconfig", kubeconfig)
	a.Must("create", "serviceaccount", "default")
	n.MustStart()
	const pods, restarts = 3, 2
	// After these restarts the probe succeeds.
	const probe = "livenessProbe: {exec: {command: [sh, -c, %q]}, initialDelaySeconds: 3, periodSeconds: 2, " +
		"failureThreshold: 1, timeoutSeconds: 10}\nvolumeMounts: [{name: runs, mountPath: /runs}]\n"
	for i := range pods {
		spec := "restartPolicy: OnFailure\nautomountServiceAccountToken: false\nvolumes: [{name: runs, emptyDir: {}}]\n"
		command := "command: [sh, -c, \"echo x >> /runs/n; trap 'exit 0' TERM; sleep 600 & wait\"]\n"
		a.Create(n.ClusterPod(fmt.Sprintf("done-%d", i), testbed.BusyboxImage, spec,
			command+fmt.Sprintf(probe, fmt.Sprintf("test $(wc -l < /runs/n) -gt %d", restarts))))
	}
	for i := range pods {
		name := fmt.Sprintf("done-%d", i)
		a.AwaitMirror(n, "the restarted container is shown as running", "default", name, func(p *v1.Pod) error {
			local, err := n.Pod(name)
			if err != nil {
				return err
			}
			if len(p.Status.ContainerStatuses) != 1 || len(local.Status.ContainerStatuses) != 1 {
				return fmt.Errorf("%+v", p.Status)
			}
			here, shown := local.Status.ContainerStatuses[0], p.Status.ContainerStatuses[0]
			if shown.RestartCount < restarts || shown.State.Running == nil || !shown.Ready ||
				shown.ContainerID != here.ContainerID || shown.RestartCount != here.RestartCount {
				return fmt.Errorf("the API has %+v, the daemon %+v", shown, here)
			}
			return harness.PodReady(p)
		})
		out, err := a.Kubectl("get", "pod", "--no-headers", n.PodName(name))
		if fields := strings.Fields(out); err != nil || len(fields) < 4 || fields[1] != "1/1" || fields[2] != "Running" ||
			fields[3] != fmt.Sprint(restarts) {
			t.Errorf("kubectl shows %q, %v", out, err)
		}
	}
	if log, err := os.ReadFile(n.Log()); err != nil || strings.Contains(string(log), "API server refused") {
		t.Errorf("a status was refused, or the log cannot be read: %v", err)
	}
}

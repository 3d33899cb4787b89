package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// otherMachine is a machine that joins the cluster of another.
type otherMachine struct {
	*kubeadmMachine
	controlPlane *kubeadmMachine
	sections     map[string][]string
}

// block returns a command of the page. The pods of this machine have a subnet of their own.
func (o otherMachine) block(heading string, i int) []string {
	o.T.Helper()
	blocks := o.sections[heading]
	if i >= len(blocks) {
		o.T.Fatalf("%s has %d commands", heading, len(blocks))
	}
	return []string{strings.ReplaceAll(blocks[i], "10.244.0.0/24", "10.244.1.0/24")}
}

// join adds the machine to the cluster, and checks that pods run on it.
func (o otherMachine) join() {
	o.T.Helper()
	const heading = "Add a machine"
	o.controlPlane.section(o.block(heading, 0))
	script, err := os.ReadFile(filepath.Join(o.controlPlane.Root, "root/join.sh"))
	if err != nil {
		o.T.Fatal(err)
	}
	o.WriteFiles(map[string]string{"root/join.sh": string(script)})
	for i := range o.sections["Prepare the machine"] {
		o.section(o.block("Prepare the machine", i))
	}
	o.section(o.block(heading, 1))
	o.controlPlane.section(o.block(heading, 2))

	// The certificate was signed by the cluster, and nothing of the token is left.
	if out := o.must("ls /etc/kubernetes; grep client-certificate: /etc/kubernetes/kubelet.conf"); strings.Contains(out,
		"bootstrap-kubelet.conf") || !strings.Contains(out, "/var/lib/kubelet/pki/kubelet-client-current.pem") {
		o.T.Errorf("the machine joined with:\n%s", out)
	}
	o.controlPlane.must(fmt.Sprintf(`kubectl apply -f - <<'END'
apiVersion: v1
kind: Pod
metadata: {name: remote}
spec:
  nodeSelector: {kubernetes.io/hostname: %s}
  terminationGracePeriodSeconds: 1
  containers:
  - {name: main, image: %s, command: [sh, -c, "echo on $HOSTNAME; exec sleep 100000"]}
END
kubectl wait --for=condition=Ready pod/remote --timeout=10m`, o.Hostname, testbed.BusyboxImage))
	if out := o.controlPlane.must(
		"kubectl logs remote && kubectl exec remote -- ip -o -4 address show dev eth0"); !strings.Contains(out,
		"on remote") || !strings.Contains(out, "inet 10.244.1.") {
		o.T.Errorf("log and address of the pod on the other machine:\n%s", out)
	}
}

// upgrade runs what the page reports after the control plane was upgraded, and checks that nothing
// was restarted.
func (o otherMachine) upgrade() {
	o.T.Helper()
	const container = "kubectl get pod remote -o jsonpath='{.status.containerStatuses[*].containerID} " +
		"{.status.containerStatuses[*].restartCount}'"
	before := o.controlPlane.must(container)
	pid := o.Try("systemctl", "show", "-p", "MainPID", "kubelet")
	o.section(o.block("Upgrade", 2))
	if now := o.Try("systemctl", "show", "-p", "MainPID", "kubelet"); now == pid {
		o.T.Errorf("podstead was not restarted: %s", now)
	}
	renewed := "kubectl get lease -n kube-node-lease " + o.Hostname + " -o jsonpath='{.spec.renewTime}'"
	lease := o.controlPlane.must(renewed)
	harness.Await(o.T, "the upgraded machine renews its lease, and its pod is ready", func() error {
		if now, err := o.controlPlane.shell(renewed); err != nil || now == lease {
			return fmt.Errorf("still of %s: %v", now, err)
		}
		out, err := o.controlPlane.shell("kubectl wait --for=condition=Ready pod/remote node/" + o.Hostname + " --timeout=0")
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		return err
	})
	if now := o.controlPlane.must(container); now != before || !strings.HasSuffix(before, " 0") {
		o.T.Errorf("the container of the other machine was %q before the upgrade, and is %q", before, now)
	}
}

// leave removes the machine from the cluster.
func (o otherMachine) leave() {
	o.T.Helper()
	const heading = "Remove a machine"
	o.controlPlane.section(o.block(heading, 0))
	o.section(o.block(heading, 1))
	o.mustBeClean()
	o.controlPlane.section(o.block(heading, 2))
	if out := o.controlPlane.must("kubectl get nodes -o name"); strings.TrimSpace(out) != "node/"+o.controlPlane.Hostname {
		o.T.Errorf("nodes of the cluster: %s", out)
	}
}

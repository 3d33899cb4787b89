package docs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// nextVersion is the version to which docs/bootstrap.md upgrades.
const nextVersion = "v1.36.4"

// kubeadmWrapper is kubeadm on the test's machine: the next version for upgrades, and without
// what only this machine lacks. Its cgroups are v1 (SystemVerification), and there are no images
// of the add-ons, so an upgrade finds no CoreDNS, and no kube-proxy forwards the addresses of
// services (kubeadmPatch).
const kubeadmWrapper = `#!/bin/sh
case $1 in
init) set -- "$@" --skip-phases=addon --patches=/root/patches --ignore-preflight-errors=SystemVerification ;;
join) set -- "$@" --ignore-preflight-errors=SystemVerification ;;
upgrade)
	export KUBERNETES_VERSION=` + nextVersion + `
	set -- "$@" --skip-phases=addon --patches=/root/patches --ignore-preflight-errors=SystemVerification,CoreDNSUnsupportedPlugins,CoreDNSMigration ;;
esac
exec /opt/kubernetes/kubeadm "$@"
`

// kubectlWrapper is kubectl on the test's machine, which has no network: it applies the manifests of
// the metrics server from a directory instead of the address of their release.
const kubectlWrapper = `#!/bin/sh
case "$*" in
"apply -f https://github.com/kubernetes-sigs/metrics-server/releases/download/VERSION/components.yaml")
	set -- apply -k /root/metrics-server ;;
*://*)
	echo "this machine does not have the address of: kubectl $*" >&2
	exit 1 ;;
esac
exec /opt/kubectl "$@"
`

// kubeadmPatch makes the API server connect to the endpoints of an aggregated API instead of the
// address of its service.
const kubeadmPatch = `[{"op": "add", "path": "/spec/containers/0/command/-", "value": "--enable-aggregator-routing=true"}]`

// The commands of docs/bootstrap.md do what the page reports, on machines with systemd.
func TestKubeadm(t *testing.T) {
	t.Parallel()
	if err := harness.Registry.PushKubernetesImages(testbed.Version("KUBERNETES_VERSION"), nextVersion); err != nil {
		t.Fatal(err)
	}
	m, other := bootKubeadmMachine(t, 0), bootKubeadmMachine(t, 1)
	sections := pageSections(t, "bootstrap.md")
	run := func(heading string) string { return m.section(sections[heading]) }

	run("Prepare the machine")
	out := run("Create the cluster")
	for _, name := range controlPlanePods {
		if !strings.Contains(out, name+"-sd") {
			t.Errorf("no mirror pod of %s:\n%s", name, out)
		}
	}

	if out = run("Run something"); !strings.Contains(out, "hello from hello-") {
		t.Errorf("the log of the deployment is missing:\n%s", out)
	}
	m.startBusyPod()
	if out = run("Show usage"); !strings.Contains(out, "hello-") {
		t.Errorf("kubectl top does not list the pod of the deployment:\n%s", out)
	}
	m.checkUsage()

	join := otherMachine{other, m, sections}
	join.join()

	hello := m.must("kubectl get pod -l app=hello -o jsonpath='{.items[*].status.containerStatuses[*].containerID}'")
	m.section(sections["Upgrade"][:2])
	if out = m.must("kubectl get --raw /version"); !strings.Contains(out, nextVersion) {
		t.Errorf("the API server was not upgraded:\n%s", out)
	}
	for _, name := range controlPlanePods[1:] { // etcd has the same version
		harness.Await(t, name+" is upgraded and ready", func() error {
			out, err := m.shell("kubectl wait -n kube-system pod/" + name +
				"-sd --for=condition=Ready --timeout=0 && kubectl get -n kube-system pod " + name +
				"-sd -o jsonpath='{.spec.containers[*].image}'")
			if err == nil && !strings.HasSuffix(out, ":"+nextVersion) {
				err = errors.New("it has another image")
			}
			if err != nil {
				err = fmt.Errorf("%w: %s", err, out)
			}
			return err
		})
	}
	if now := m.must(
		"kubectl get pod -l app=hello -o jsonpath='{.items[*].status.containerStatuses[*].containerID}'"); now != hello ||
		hello == "" {
		t.Errorf("the container of the deployment was %q before the upgrade, and is %q", hello, now)
	}

	join.upgrade()
	join.leave()
	run("Remove the cluster")
	m.mustBeClean()
	// Nothing of the first cluster is in the way of a second one.
	m.section(sections["Prepare the machine"])
	m.section(sections["Create the cluster"][:1])
}

// controlPlanePods are the static pods of kubeadm.
var controlPlanePods = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"}

// mustBeClean fails the test if a pod, a mount or a file of the cluster is left.
func (m *kubeadmMachine) mustBeClean() {
	m.T.Helper()
	if left := m.must(
		`ctr -n k8s.io containers ls -q; ctr -n k8s.io tasks ls -q; grep /var/lib/kubelet /proc/mounts || true; find /var/lib/kubelet /etc/kubernetes/manifests -mindepth 1`); left != "" {
		m.T.Errorf("left after kubeadm reset:\n%s", left)
	}
	if state := m.Try("systemctl", "is-active", "kubelet"); state != "inactive" {
		m.T.Errorf("the kubelet is %s after kubeadm reset", state)
	}
}

// kubeadmMachine is a machine on which the commands of a page are run.
type kubeadmMachine struct {
	*harness.Machine
	// exports are the lines of the page that set variables of the shell.
	exports string
}

// section runs the blocks of a section of the page in order, and returns what they print.
func (m *kubeadmMachine) section(blocks []string) (output string) {
	m.T.Helper()
	if len(blocks) == 0 {
		m.T.Fatal("the section of the page has no commands")
	}
	for _, block := range blocks {
		begin := time.Now()
		// The times on the page are those of a machine that is not busy.
		out, err := m.shell(regexp.MustCompile(`--timeout=\d+m\b`).ReplaceAllString(block, "--timeout=15m"))
		output += out
		m.T.Logf("%v:\n%s\n%s", time.Since(begin).Round(time.Second), block, out)
		if err != nil {
			m.T.Fatal(err)
		}
		for line := range strings.Lines(block) {
			if strings.HasPrefix(line, "export ") {
				m.exports += line
			}
		}
	}
	return output
}

// must runs a script in the machine and returns its output; a failure ends the test.
func (m *kubeadmMachine) must(script string) string {
	m.T.Helper()
	out, err := m.shell(script)
	if err != nil {
		m.T.Fatalf("%s: %v\n%s", script, err, out)
	}
	return out
}

// shell runs a script in the machine, with the variables of the page, and returns its output.
func (m *kubeadmMachine) shell(script string) (string, error) {
	args := []string{"-t", fmt.Sprint(m.PID), "-a", "--", "env", "-i", "HOME=/root",
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"sh", "-e", "-c", "cd /root\n" + m.exports + script}
	out, err := exec.CommandContext(m.T.Context(), "nsenter", args...).CombinedOutput()
	return string(out), err
}

// pageSections returns the shell commands of a page of docs, by the heading of their section.
func pageSections(t *testing.T, page string) map[string][]string {
	t.Helper()
	sections, err := testbed.PageSections(page)
	if err != nil {
		t.Fatal(err)
	}
	return sections
}

// bootKubeadmMachine boots one of two machines with the runtime and the programs that the page
// expects, in a network of its own, with a route to the registry and to the other machine.
func bootKubeadmMachine(t *testing.T, number int) *kubeadmMachine {
	t.Helper()
	hostname := kubeadmHostnames[number]
	host := harness.ConnectMachine(t, "kubeadm-"+hostname, number)
	addr, err := harness.Registry.ServeOn(host)
	if err != nil {
		t.Fatal(err)
	}
	m := harness.UnpackMachineNamed(t, hostname)
	m.Options = []string{"--network-namespace-path=/run/netns/kubeadm-" + hostname,
		"--bind-ro=" + testbed.KubernetesDir() + ":/opt/kubernetes", "--bind-ro=" + testbed.Kubectl() + ":/opt/kubectl"}
	unit, err := os.ReadFile(filepath.Join(testbed.SourceRoot(), "examples", "podstead.service"))
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := harness.Registry.PushMetricsServer(
		map[string]string{"KUBERNETES_SERVICE_HOST": harness.MachineAddress(0), "KUBERNETES_SERVICE_PORT": "6443"})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range metrics {
		m.WriteFiles(map[string]string{"root/metrics-server/" + name: content})
	}
	m.WriteFiles(map[string]string{
		"etc/containerd/certs.d/_default/hosts.toml": testbed.HostsTOML(addr),
		"etc/containerd/config.toml":                 harness.SystemdDriver,
		"root/examples/podstead.service":             string(unit),
		"usr/local/bin/kubeadm":                      kubeadmWrapper,
		"usr/local/bin/kubectl": strings.Replace(kubectlWrapper, "VERSION",
			testbed.Version("METRICS_SERVER_VERSION"), 1),
		"root/patches/kube-apiserver+json.json": kubeadmPatch,
		// There is no DNS server to ask for it.
		"etc/hosts": fmt.Sprintf("127.0.0.1 localhost\n%s %s\n%s %s\n", harness.MachineAddress(0), kubeadmHostnames[0],
			harness.MachineAddress(1), kubeadmHostnames[1]),
		// The machines share the cgroup v1 controllers of the host.
		"etc/default/kubelet": "KUBELET_EXTRA_ARGS=--cgroup-root=/kubeadm" + fmt.Sprint(number) + "\n",
	})
	if err := errors.Join(os.Chmod(filepath.Join(m.Root, "usr/local/bin/kubeadm"), 0o755),
		os.Chmod(filepath.Join(m.Root, "usr/local/bin/kubectl"), 0o755),
		os.Mkdir(filepath.Join(m.Root, "root/bin"), 0o755)); err != nil {
		t.Fatal(err)
	}
	harness.CopyFile(t, testbed.Product(), filepath.Join(m.Root, "root/bin/podstead"))
	t.Cleanup(func() {
		if t.Failed() && m.PID != 0 {
			t.Logf("journal of the kubelet:\n%s", m.Try("journalctl", "-u", "kubelet", "-n", "100", "--no-pager"))
		}
		m.CutPower()
	})
	m.StartInit()
	harness.Await(t, "the runtime of the machine is active", func() error {
		if state := m.Try("systemctl", "is-active", "containerd"); state != "active" {
			return errors.New(state)
		}
		return nil
	})
	return &kubeadmMachine{Machine: m}
}

// kubeadmHostnames are the names of the machines and their nodes.
var kubeadmHostnames = [2]string{"sd", "sd2"}

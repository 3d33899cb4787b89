package e2e

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

// The commands of docs/bootstrap.md do what the page says, on machines with systemd.
func TestKubeadm(t *testing.T) {
	t.Parallel()
	if err := registry.PushKubernetesImages(testbed.Version("KUBERNETES_VERSION"), nextVersion); err != nil {
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
		await(t, name+" is upgraded and ready", func() error {
			out, err := m.shell("kubectl wait -n kube-system pod/" + name + "-sd --for=condition=Ready --timeout=0 && kubectl get -n kube-system pod " + name + "-sd -o jsonpath='{.spec.containers[*].image}'")
			if err == nil && !strings.HasSuffix(out, ":"+nextVersion) {
				err = errors.New("it has another image")
			}
			if err != nil {
				err = fmt.Errorf("%w: %s", err, out)
			}
			return err
		})
	}
	if now := m.must("kubectl get pod -l app=hello -o jsonpath='{.items[*].status.containerStatuses[*].containerID}'"); now != hello || hello == "" {
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
	m.t.Helper()
	if left := m.must(`ctr -n k8s.io containers ls -q; ctr -n k8s.io tasks ls -q; grep /var/lib/kubelet /proc/mounts || true; find /var/lib/kubelet /etc/kubernetes/manifests -mindepth 1`); left != "" {
		m.t.Errorf("left after kubeadm reset:\n%s", left)
	}
	if state := m.try("systemctl", "is-active", "kubelet"); state != "inactive" {
		m.t.Errorf("the kubelet is %s after kubeadm reset", state)
	}
}

// kubeadmMachine is a machine on which the commands of a page are run.
type kubeadmMachine struct {
	*machine
	// exports are the lines of the page that set variables of the shell.
	exports string
}

// section runs the blocks of a section of the page in order, and returns what they print.
func (m *kubeadmMachine) section(blocks []string) (output string) {
	m.t.Helper()
	if len(blocks) == 0 {
		m.t.Fatal("the section of the page has no commands")
	}
	for _, block := range blocks {
		begin := time.Now()
		// The times on the page are those of a machine that is not busy.
		out, err := m.shell(regexp.MustCompile(`--timeout=\d+m\b`).ReplaceAllString(block, "--timeout=15m"))
		output += out
		m.t.Logf("%v:\n%s\n%s", time.Since(begin).Round(time.Second), block, out)
		if err != nil {
			m.t.Fatal(err)
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
	m.t.Helper()
	out, err := m.shell(script)
	if err != nil {
		m.t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return out
}

// shell runs a script in the machine, with the variables of the page, and returns its output.
func (m *kubeadmMachine) shell(script string) (string, error) {
	args := []string{"-t", fmt.Sprint(m.pid), "-a", "--", "env", "-i", "HOME=/root", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"sh", "-e", "-c", "cd /root\n" + m.exports + script}
	out, err := exec.CommandContext(m.t.Context(), "nsenter", args...).CombinedOutput()
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
	host := connectMachine(t, "kubeadm-"+hostname, number)
	addr, err := registry.ServeOn(host)
	if err != nil {
		t.Fatal(err)
	}
	m := unpackMachineNamed(t, hostname)
	m.options = []string{"--network-namespace-path=/run/netns/kubeadm-" + hostname, "--bind-ro=" + testbed.KubernetesDir() + ":/opt/kubernetes", "--bind-ro=" + testbed.Kubectl() + ":/opt/kubectl"}
	unit, err := os.ReadFile(filepath.Join(testbed.SourceRoot(), "examples", "podstead.service"))
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := registry.PushMetricsServer(map[string]string{"KUBERNETES_SERVICE_HOST": machineAddress(0), "KUBERNETES_SERVICE_PORT": "6443"})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range metrics {
		m.writeFiles(map[string]string{"root/metrics-server/" + name: content})
	}
	m.writeFiles(map[string]string{
		"etc/containerd/certs.d/_default/hosts.toml": testbed.HostsTOML(addr),
		"etc/containerd/config.toml":                 systemdDriver,
		"root/examples/podstead.service":             string(unit),
		"usr/local/bin/kubeadm":                      kubeadmWrapper,
		"usr/local/bin/kubectl":                      strings.Replace(kubectlWrapper, "VERSION", testbed.Version("METRICS_SERVER_VERSION"), 1),
		"root/patches/kube-apiserver+json.json":      kubeadmPatch,
		// There is no DNS server to ask for it.
		"etc/hosts": fmt.Sprintf("127.0.0.1 localhost\n%s %s\n%s %s\n", machineAddress(0), kubeadmHostnames[0], machineAddress(1), kubeadmHostnames[1]),
		// The machines share the cgroup v1 controllers of the host.
		"etc/default/kubelet": "KUBELET_EXTRA_ARGS=--cgroup-root=/kubeadm" + fmt.Sprint(number) + "\n",
	})
	if err := errors.Join(os.Chmod(filepath.Join(m.root, "usr/local/bin/kubeadm"), 0o755), os.Chmod(filepath.Join(m.root, "usr/local/bin/kubectl"), 0o755),
		os.Mkdir(filepath.Join(m.root, "root/bin"), 0o755)); err != nil {
		t.Fatal(err)
	}
	copyFile(t, testbed.Product(), filepath.Join(m.root, "root/bin/podstead"))
	t.Cleanup(func() {
		if t.Failed() && m.pid != 0 {
			t.Logf("journal of the kubelet:\n%s", m.try("journalctl", "-u", "kubelet", "-n", "100", "--no-pager"))
		}
		m.cutPower()
	})
	m.startInit()
	await(t, "the runtime of the machine is active", func() error {
		if state := m.try("systemctl", "is-active", "containerd"); state != "active" {
			return errors.New(state)
		}
		return nil
	})
	return &kubeadmMachine{machine: m}
}

// kubeadmHostnames are the names of the machines and their nodes.
var kubeadmHostnames = [2]string{"sd", "sd2"}

// machineAddress returns the address of a machine in its network namespace.
func machineAddress(number int) string { return fmt.Sprintf("198.18.%d.2", number) }

// connectMachine creates a network namespace that is connected to the test's, which is its
// gateway, and returns the gateway's address.
func connectMachine(t *testing.T, name string, number int) string {
	t.Helper()
	gateway, link := fmt.Sprintf("198.18.%d.1", number), fmt.Sprintf("machine%d", number)
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{
		"ip netns add " + name,
		"ip link add " + link + " type veth peer name eth0 netns " + name,
		"ip address add " + gateway + "/28 dev " + link,
		"ip link set " + link + " up",
		"ip -n " + name + " link set lo up",
		"ip -n " + name + " address add " + machineAddress(number) + "/28 dev eth0",
		"ip -n " + name + " link set eth0 up",
		"ip -n " + name + " route add default via " + gateway,
	} {
		args := strings.Fields(command)
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", command, err, out)
		}
	}
	t.Cleanup(func() { _ = exec.Command("ip", "netns", "delete", name).Run() })
	return gateway
}

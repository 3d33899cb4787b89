package machine

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/podstead/podstead/test/testbed"
)

// nextKubernetes is the version to which docs/bootstrap.md upgrades.
const nextKubernetes = "v1.36.4"

// kubeadmProgram is kubeadm in the machine: with more time, which only a configuration file gives, and
// without the minute that an upgrade gives to a Job; the next version for upgrades; and without the
// add-ons, of which there are no images, so that the API server has to connect to the endpoints of an
// aggregated API instead of the address of its service.
const kubeadmProgram = `#!/bin/sh
case $1 in
init)
	shift
	while [ $# -gt 0 ]; do
		case $1 in
		--kubernetes-version) version=$2 ;;
		--pod-network-cidr) network=$2 ;;
		*) echo "unexpected argument $1" >&2; exit 2 ;;
		esac
		shift 2
	done
	cat >/root/init.yaml <<END
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: $version
networking: {podSubnet: $network}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
skipPhases: [addon]
patches: {directory: /root/patches}
timeouts: {kubernetesAPICall: 10m, controlPlaneComponentHealthCheck: 10m}
END
	set -- init --config /root/init.yaml ;;
upgrade)
	export KUBERNETES_VERSION=` + nextKubernetes + `
	set -- "$@" --skip-phases=addon --patches=/root/patches --ignore-preflight-errors=CoreDNSUnsupportedPlugins,CoreDNSMigration,CreateJob ;;
esac
exec /opt/kubernetes/kubeadm "$@"
`

// kubectlProgram is kubectl in the machine, which has no network: it applies the manifests of the
// metrics server from a directory instead of the address of their release.
const kubectlProgram = `#!/bin/sh
case "$*" in
"apply -f https://github.com/kubernetes-sigs/metrics-server/releases/"*) set -- apply -k /root/metrics-server ;;
esac
exec /opt/kubernetes/kubectl "$@"
`

const apiServerPatch = `[{"op": "add", "path": "/spec/containers/0/command/-", "value": "--enable-aggregator-routing=true"}]`

// kubeadmContainerd is Debian's containerd with the cgroup driver that podstead and kubeadm expect
// under systemd, and the registry of the tests.
const kubeadmContainerd = `version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "` + testbed.PauseImage + `"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "/etc/cni/net.d"
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "/etc/containerd/certs.d"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = true
`

// hostAddress is the address of the host's loopback in QEMU's network.
const hostAddress = "10.0.2.2"

// The commands of docs/bootstrap.md on a whole machine with cgroup v2 and a real systemd, without an
// exception from kubeadm's checks: a cluster, a deployment, its usage, a reboot and a power cut, the
// upgrade, and the removal.
func TestKubeadm(t *testing.T) {
	sections, err := testbed.PageSections("bootstrap.md")
	if err != nil {
		t.Fatal(err)
	}
	k := &kubeadmNode{Machine: New(t, Options{MemoryMiB: 4096, QEMUArgs: kubernetesDisk(t)})}
	k.prepare()
	run := func(heading string) string { t.Helper(); return k.section(sections[heading]) }

	run("Prepare the machine")
	out := run("Create the cluster")
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
		if !strings.Contains(out, name+"-machine") {
			t.Errorf("no mirror pod of %s:\n%s", name, out)
		}
	}
	if out = run("Run something"); !strings.Contains(out, "hello from hello-") {
		t.Errorf("the log of the deployment is missing:\n%s", out)
	}
	if out = run("Show usage"); !strings.Contains(out, "hello-") {
		t.Errorf("kubectl top does not list the pod of the deployment:\n%s", out)
	}

	// The cluster comes back by itself.
	hello := k.deployed()
	k.Reboot()
	k.returns("a reboot", hello)
	hello = k.deployed()
	k.PowerCut()
	k.Start()
	k.returns("a power cut", hello)

	hello = k.deployed()
	k.section(sections["Upgrade"][:2])
	if out = k.must("kubectl get --raw /version"); !strings.Contains(out, nextKubernetes) {
		t.Errorf("the API server was not upgraded:\n%s", out)
	}
	if now := k.deployed(); now != hello {
		t.Errorf("the container of the deployment was %s before the upgrade, and is %s", hello, now)
	}

	run("Remove the cluster")
	if left := k.Sh(
		`ctr -n k8s.io containers ls -q; ctr -n k8s.io tasks ls -q; grep /var/lib/kubelet /proc/mounts || true; find /var/lib/kubelet /etc/kubernetes/manifests -mindepth 1`); left != "" {
		t.Errorf("left after kubeadm reset:\n%s", left)
	}
}

// kubeadmNode is a machine on which the commands of the page are run.
type kubeadmNode struct {
	*Machine
	// exports are the lines of the page that set variables of the shell.
	exports string
}

// kubernetesDisk returns the arguments that attach the programs of Kubernetes as /dev/vdb.
func kubernetesDisk(t *testing.T) []string {
	t.Helper()
	dir, disk := t.TempDir(), filepath.Join(t.TempDir(), "kubernetes.ext4")
	for _, command := range [][]string{
		{"cp", "-a", testbed.KubernetesDir() + "/.", testbed.Kubectl(), dir},
		{"mke2fs", "-q", "-t", "ext4", "-d", dir, disk, "1G"},
	} {
		if out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
	}
	return []string{"-drive", "file=" + disk + ",if=none,id=kubernetes,format=raw,readonly=on", "-device",
		"virtio-blk-pci,drive=kubernetes"}
}

// prepare makes the machine one that has what the page expects: a runtime with a registry, and
// Kubernetes' programs.
func (k *kubeadmNode) prepare() {
	t := k.t
	t.Helper()
	registry, err := testbed.StartRegistry()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = registry.Close() })
	if err := registry.PushKubernetesImages(testbed.Version("KUBERNETES_VERSION"), nextKubernetes); err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(registry.Addr())
	if err != nil {
		t.Fatal(err)
	}
	k.Start()
	k.Await("services have started", settle, func() error {
		_, err := k.Try("systemctl is-active multi-user.target containerd")
		return err
	})
	address := strings.TrimSpace(k.Sh(
		"ip -4 -o address show scope global | awk '{ split($4, a, \"/\"); print a[1]; exit }'"))
	if net.ParseIP(address) == nil {
		t.Fatalf("the machine's address is %q", address)
	}
	manifests, err := registry.PushMetricsServer(
		map[string]string{"KUBERNETES_SERVICE_HOST": address, "KUBERNETES_SERVICE_PORT": "6443"})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range manifests {
		k.Write("/root/metrics-server/"+name, content)
	}
	unit, err := os.ReadFile(filepath.Join(testbed.SourceRoot(), "examples", "podstead.service"))
	if err != nil {
		t.Fatal(err)
	}
	k.Write("/root/examples/podstead.service", string(unit))
	k.Write("/root/patches/kube-apiserver+json.json", apiServerPatch)
	k.Write("/etc/containerd/config.toml", kubeadmContainerd)
	k.Write("/etc/containerd/certs.d/_default/hosts.toml", testbed.HostsTOML(net.JoinHostPort(hostAddress, port)))
	k.Write("/etc/hosts", "127.0.0.1 localhost\n"+address+" machine\n")
	k.CopyIn(testbed.Product(), "/root/bin/podstead", 0o755)
	k.copyIn(strings.NewReader(kubeadmProgram), "/usr/local/bin/kubeadm", 0o755)
	k.copyIn(strings.NewReader(kubectlProgram), "/usr/local/bin/kubectl", 0o755)
	k.Sh("mkdir -p /opt/kubernetes && echo '/dev/vdb /opt/kubernetes ext4 ro,nofail 0 0' >>/etc/fstab && systemctl " +
		"daemon-reload && mount /opt/kubernetes")
	// What kubeadm's documentation has an administrator do on every machine.
	k.Sh("echo br_netfilter >/etc/modules-load.d/k8s.conf && modprobe br_netfilter && printf 'net.ipv4.ip_forward = " +
		"1\nnet.bridge.bridge-nf-call-iptables = 1\n' >/etc/sysctl.d/k8s.conf && sysctl -q --system")
	k.Sh("systemctl restart containerd")
}

// section runs the blocks of a section of the page in order, and returns what they print.
func (k *kubeadmNode) section(blocks []string) (output string) {
	k.t.Helper()
	if len(blocks) == 0 {
		k.t.Fatal("the section of the page has no commands")
	}
	for _, block := range blocks {
		begin := time.Now()
		// The times on the page are those of a machine that is not emulated.
		out, err := k.try(regexp.MustCompile(`--timeout=\d+m\b`).ReplaceAllString(block, "--timeout=30m"))
		output += out
		k.t.Logf("%v:\n%s\n%s", time.Since(begin).Round(time.Second), block, out)
		if err != nil {
			k.t.Fatal(err)
		}
		for line := range strings.Lines(block) {
			if strings.HasPrefix(line, "export ") {
				k.exports += line
			}
		}
	}
	return output
}

// try runs a script with the variables of the page.
func (k *kubeadmNode) try(script string) (string, error) {
	return k.Try("set -e; cd /root\n" + k.exports + script)
}

func (k *kubeadmNode) must(script string) string {
	k.t.Helper()
	out, err := k.try(script)
	if err != nil {
		k.t.Fatal(err)
	}
	return out
}

// deployed returns the ID of the deployment's container.
func (k *kubeadmNode) deployed() string {
	k.t.Helper()
	id := k.must("kubectl get pod -l app=hello -o jsonpath='{.items[*].status.containerStatuses[*].containerID}'")
	if !regexp.MustCompile(`^containerd://[0-9a-f]{64}$`).MatchString(id) {
		k.t.Fatalf("the deployment has the containers %q, want one", id)
	}
	return id
}

// returns waits until the node and the deployment are ready after a boot, in another container.
func (k *kubeadmNode) returns(what, before string) {
	k.t.Helper()
	began := time.Now()
	k.Await("the cluster is back after "+what, bootTimeout, func() error {
		out, err := k.try("kubectl get pod -l app=hello -o jsonpath='{.items[*].status.containerStatuses[*].containerID} " +
			"{.items[*].status.conditions[?(@.type==\"Ready\")].status}'; kubectl wait --for=condition=Ready node --all " +
			"--timeout=0")
		switch {
		case err != nil:
			return fmt.Errorf("%w: %s", err, out)
		case strings.HasPrefix(out, before) || !strings.Contains(out, " True"):
			return errors.New(out)
		}
		return nil
	})
	k.t.Logf("the cluster is back %v after %s", time.Since(began).Round(time.Second), what)
}

package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

func complete(t *testing.T, args ...string) (*Options, []string, error) {
	t.Helper()
	o := Options{host: testHost(t)}
	f := pflag.NewFlagSet("run", pflag.ContinueOnError)
	o.AddFlags(f)
	if err := f.Parse(args); err != nil {
		t.Fatal(err)
	}
	notices, err := o.Complete(f)
	return &o, notices, err
}

// testHost returns the directory of a host with four CPUs, cgroup v1 and no swap.
func testHost(t *testing.T) string {
	t.Helper()
	return files(t, map[string]string{
		"proc/swaps": "Filename Type Size Used Priority\n",
		"proc/self/mountinfo": "30 20 0:25 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n31 20 0:26 / " +
			"/sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n",
		"sys/devices/system/cpu/online": "0-3\n",
		"proc/meminfo":                  "MemTotal: 4194304 kB\n",
	})
}

func TestDefaults(t *testing.T) {
	o, notices, err := complete(t)
	if err != nil || len(notices) > 0 {
		t.Fatal(notices, err)
	}
	if o.Manifests.Path != "/etc/pods" || o.Paths.Root != "/var/lib/podstead" ||
		o.API.Socket != "/run/podstead/podstead.sock" ||
		o.API.HealthAddress != "127.0.0.1:10248" || o.Runtime.ParallelPulls != 0 || o.Runtime.RestartCap != 5*time.Minute ||
		o.Manifests.Mode != "strict" {
		t.Errorf("defaults are %+v", o)
	}
}

func TestPrecedenceFlagFileDefault(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
staticPodPath: /from/file
fileCheckFrequency: 3s
healthzPort: 0
staticPodURL: http://127.0.0.1/x
staticPodURLHeader: {A: [b]}
maxPods: 3
podsPerCore: 2
topologyManagerScope: pod
crashLoopBackOff: {maxContainerRestartPeriod: 7s}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	o, notices, err := complete(t, "--config", file, "--pod-manifest-path", "/from/flag")
	if err != nil {
		t.Fatal(err)
	}
	if o.Manifests.Path != "/from/flag" || o.Manifests.FileCheck != 3*time.Second || o.API.HealthAddress != "" ||
		o.Manifests.URL != "http://127.0.0.1/x" || o.Manifests.Header.Get("A") != "b" ||
		o.Manifests.HTTPCheck != 20*time.Second || o.Runtime.RestartCap != 7*time.Second {
		t.Errorf("options are %+v", o)
	}
	if one, eight := o.Policy.Pods(1), o.Policy.Pods(8); one != 2 || eight != 3 {
		t.Errorf("%d pods on one CPU, %d on eight", one, eight)
	}
	if len(notices) != 1 || !strings.Contains(notices[0], "topologyManagerScope") {
		t.Errorf("notices are %q, want one that names topologyManagerScope", notices)
	}
}

func TestNodeIP(t *testing.T) {
	for _, c := range []struct {
		flag    string
		want    string
		v6First bool
	}{
		{"", "[]", false},
		{"10.0.0.1", "[10.0.0.1]", false},
		{"2001:db8::1, ::ffff:10.0.0.1", "[2001:db8::1 10.0.0.1]", false},
		{"0.0.0.0", "[]", false},
		{"::", "[]", true},
	} {
		o, _, err := complete(t, "--node-ip="+c.flag)
		if err != nil || fmt.Sprint(o.Network.NodeIPs) != c.want || o.Network.IPv6First != c.v6First {
			t.Errorf("%q: %v, IPv6 first %v (%v), want %s", c.flag, o.Network.NodeIPs, o.Network.IPv6First, err, c.want)
		}
	}
}

func TestClusterDNSFromFileAndFlag(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
clusterDNS: [10.96.0.10, "fd00::a"]
clusterDomain: cluster.local.
resolvConf: ""
`), 0o600); err != nil {
		t.Fatal(err)
	}
	o, notices, err := complete(t, "--config", file)
	if err != nil || len(notices) > 0 {
		t.Fatal(notices, err)
	}
	if n := o.Network; fmt.Sprint(n.ClusterDNS) != "[10.96.0.10 fd00::a]" || n.ClusterDomain != "cluster.local" ||
		n.ResolvConf != "" {
		t.Errorf("from the file: %+v", n)
	}
	o, _, err = complete(t, "--config", file, "--cluster-dns", "10.0.0.10", "--resolv-conf", "/my/resolv.conf")
	if n := o.Network; err != nil || fmt.Sprint(n.ClusterDNS) != "[10.0.0.10]" || n.ResolvConf != "/my/resolv.conf" {
		t.Errorf("from flags: %+v (%v)", n, err)
	}
}

// The ranges of pods come from the kubelet's flag and field; a fault names what would be right.
func TestPodCIDR(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	for field, want := range map[string]string{
		"10.100.0.0/16":                         "[10.100.0.0/16]",
		"fd00:100::/64, 10.100.0.0/16":          "[fd00:100::/64 10.100.0.0/16]",
		"10.100.0.0":                            `"10.100.0.0" is not an address range, such as 10.100.0.0/16 or fd00:100::/64`,
		"10.100.0.1/16":                         "[10.100.0.0/16]",
		"10.100.0.0/31":                         "10.100.0.0/31 is too small; use a prefix length of at most 30 for IPv4",
		"fe80::/64":                             "fe80::/64 has no addresses for pods; use a private range",
		"10.100.0.0/16,10.101.0.0/16":           "must be one range, or one of IPv4 and one of IPv6",
		"10.1.0.0/16,fd00::/64,fd00:0:0:1::/64": "must be one range, or one of IPv4 and one of IPv6",
	} {
		if err := os.WriteFile(file, []byte(kubeletHead+"podCIDR: \""+field+"\"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		o, notices, err := complete(t, "--config", file)
		if masked := strings.Contains(field, "0.1/"); masked != (len(notices) > 0) || masked &&
			!strings.Contains(notices[0], "10.100.0.1/16 is an address in the range 10.100.0.0/16") {
			t.Errorf("%s: notices %q", field, notices)
		}
		if err != nil {
			if !strings.HasPrefix(err.Error(), file+":3: podCIDR: ") || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %s", field, err, want)
			}
		} else if got := fmt.Sprint(o.Network.PodCIDRs); got != want {
			t.Errorf("%s: %s, want %s", field, got, want)
		}
		o, _, err = complete(t, "--config", file, "--pod-cidr", "10.102.0.0/16")
		if err != nil || fmt.Sprint(o.Network.PodCIDRs) != "[10.102.0.0/16]" {
			t.Errorf("the flag: %v (%v)", o, err)
		}
	}
}

func TestHeadersCanBeRepeated(t *testing.T) {
	o, _, err := complete(t, "--manifest-url-header", "X-A: 1", "--manifest-url-header", "X-A:2:3")
	if err != nil {
		t.Fatal(err)
	}
	if got := o.Manifests.Header["X-A"]; len(got) != 2 || got[0] != "1" || got[1] != "2:3" {
		t.Errorf("headers are %q", got)
	}
}

func TestRelativePathsBecomeAbsolute(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	o, _, err := complete(t, "--pod-manifest-path", "pods", "--root-dir", "root")
	if err != nil {
		t.Fatal(err)
	}
	if o.Manifests.Path != filepath.Join(dir, "pods") || o.Paths.Root != filepath.Join(dir, "root") {
		t.Errorf("paths are %q and %q", o.Manifests.Path, o.Paths.Root)
	}
}

func TestInvalidSettings(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--pod-manifest-path="}, "nothing to run"},
		{[]string{"--manifest-url=ftp://x"}, "--manifest-url: must be"},
		{[]string{"--manifest-url-header=secret"}, "--manifest-url-header: must be name:value"},
		{[]string{"--file-check-frequency=0"}, "--file-check-frequency=0s"},
		{[]string{"--max-container-restart-period=6m"}, "--max-container-restart-period=6m0s: must be 1s to 5m"},
		{[]string{"--max-container-restart-period=0"}, "--max-container-restart-period=0s: must be 1s to 5m"},
		{[]string{"--log-format=xml"}, "--log-format"},
		{[]string{"--healthz-port=70000"}, "--healthz-port"},
		{[]string{"--healthz-bind-address=localhost"}, "--healthz-bind-address"},
		{[]string{"--manifest-validation=lax"}, "--manifest-validation"},
		{[]string{"--root-dir="}, "--root-dir"},
		{[]string{"--api-socket=/" + strings.Repeat("x", 120)}, "--api-socket"},
		{[]string{"--config=/nonexistent.yaml"}, "/nonexistent.yaml"},
		{[]string{"--image-credential-provider-config=/x"}, "must be set together"},
		{[]string{"--node-ip=host"}, `--node-ip: "host" is not an IP address`},
		{[]string{"--node-ip=127.0.0.1"}, "--node-ip: 127.0.0.1 is not"},
		{[]string{"--node-ip=fe80::1"}, "--node-ip: fe80::1 is not"},
		{[]string{"--node-ip=10.0.0.1,10.0.0.2"}, "one IPv4 and one IPv6"},
		{[]string{"--cluster-dns=kube-dns"}, "--cluster-dns"},
		{[]string{"--cluster-domain=a_b"}, "--cluster-domain"},
	} {
		_, _, err := complete(t, c.args...)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.args, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%v: the error shows a header's value: %v", c.args, err)
		}
	}
}

func TestMachineIDSkipsInvalidFiles(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"empty": "", "first-boot": "uninitialized\n", "real": "abc\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	id, ok := MachineID(filepath.Join(dir, "none"), filepath.Join(dir, "empty"), filepath.Join(dir, "first-boot"),
		filepath.Join(dir, "real"))
	if !ok || id != "abc" {
		t.Errorf("MachineID = %q, %v", id, ok)
	}
	if _, ok := MachineID(filepath.Join(dir, "empty")); ok {
		t.Error("MachineID found one in an empty file")
	}
}

// The config file and the flags in kubeadm-flags.env that kubeadm generates are accepted,
// also those of older versions.
func TestKubeadmFlags(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "kubelet.conf")
	if err := os.WriteFile(kubeconfig, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	o, _, err := complete(t, "--kubeconfig="+kubeconfig, "--config=testdata/kubeadm.yaml",
		"--container-runtime-endpoint=unix:///run/containerd/containerd.sock",
		"--pod-infra-container-image=registry.k8s.io/pause:3.10",
		"--hostname-override=cp-1", "--node-ip=192.0.2.10", "--node-labels=a=b", "--cgroup-driver=systemd",
		"--register-with-taints=node-role.kubernetes.io/control-plane:NoSchedule")
	if err != nil {
		t.Fatal(err)
	}
	if o.Manifests.Path != "/etc/kubernetes/manifests" || o.Node != "cp-1" || o.Remote.Address != "0.0.0.0:10250" ||
		o.Remote.ClientCAFile != "/etc/kubernetes/pki/ca.crt" ||
		o.API.HealthAddress != "127.0.0.1:10248" || fmt.Sprint(o.Network.ClusterDNS) != "[10.96.0.10]" ||
		o.Eviction.Transition != 5*time.Minute {
		t.Errorf("options are %+v", o)
	}
}

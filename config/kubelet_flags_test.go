package config

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// Command lines of real units start: those of kubeadm, of a cloud image and of old kubelets.
func TestKubeletCommandLines(t *testing.T) {
	for name, c := range map[string]struct {
		args string
		// want are the names of the flags that have no effect, in the order of the notices.
		want string
	}{
		"kubeadm": {"--container-runtime-endpoint=unix:///run/containerd/containerd.sock " +
			"--pod-infra-container-image=registry.k8s.io/pause:3.10 --cgroup-driver=systemd --v=2", ""},
		"kubespray": {"--logtostderr=true --v=2 --node-ip=10.0.0.1 --hostname-override=n --container-runtime=remote " +
			"--container-runtime-endpoint=unix:///run/crio.sock --runtime-cgroups=/systemd/system.slice --network-plugin=cni " +
			"--cni-conf-dir=/etc/cni/net.d --cni-bin-dir=/opt/cni/bin",
			"runtime-cgroups cni-bin-dir"},
		"cloud": {"--anonymous-auth=false --cgroup-driver=systemd --cloud-provider=external --cluster-dns=10.0.0.10 " +
			"--eviction-hard=memory.available<5% --feature-gates=A=true,B=false --max-pods=110 --protect-kernel-defaults " +
			"--register-schedulable=true --volume-plugin-dir=/x",
			"feature-gates volume-plugin-dir"},
		"old": {"--allow-privileged=true --cadvisor-port=0 --fail_swap_on=false --keep-terminated-pod-volumes " +
			"--alsologtostderr -v 2", "allow-privileged alsologtostderr keep-terminated-pod-volumes"},
		"exotic": {"--topology-manager-scope=pod --housekeeping_interval=10s", "housekeeping-interval"},
		"own choices": {"--cpu-manager-policy=none --memory-manager-policy=None --topology-manager-policy=none " +
			"--cgroups-per-qos --local-storage-capacity-isolation=true --fail-swap-on=false --enable-server=true " +
			"--oom-score-adj=-999 --image-service-endpoint=", ""},
	} {
		_, notices, err := complete(t, strings.Fields(c.args)...)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, notice := range notices {
			if flag, why, ok := strings.Cut(notice, " has no effect: "); ok && why != "" {
				got = append(got, strings.TrimPrefix(flag, "--"))
			}
		}
		if !slices.Equal(got, strings.Fields(c.want)) {
			t.Errorf("%s: notices about %q, want %q", name, got, strings.Fields(c.want))
		}
	}
}

// A flag is refused if it would be unsafe or surprising to ignore it, with what to do.
func TestRefusedKubeletFlags(t *testing.T) {
	for arg, want := range map[string]string{
		"--enable-server=false":              "use --port=0",
		"--exit-on-lock-contention":          "remove the flag",
		"--network-plugin=kubenet":           "configure a CNI network",
		"--container-runtime=docker":         "cri-dockerd",
		"--register-schedulable=false":       "--register-with-taints=node.kubernetes.io/unschedulable=:NoSchedule",
		"--api-servers=https://10.0.0.1":     "use --kubeconfig",
		"--dynamic-config-dir=/x":            "use --config",
		"--image-service-endpoint=unix:///x": "must be the same as --container-runtime-endpoint",
		"--serialize-image-pulls=maybe":      "",
		"--v=much":                           "must be a number",
		"--cpu-manager-policy=static":        "set reservedSystemCPUs",
		"--reserved-cpus=9999":               "this node has no CPU 9999",
		"--memory-manager-policy=Static":     "determined by Node Allocatable feature",
		"--topology-manager-policy=restrict": "is not a policy; use none, best-effort, restricted, single-numa-node",
		"--cgroups-per-qos=false":            "remove the flag",
		"--logging-format=xml":               "must be text or json",
	} {
		var o Options
		f := pflag.NewFlagSet("run", pflag.ContinueOnError)
		o.AddFlags(f)
		err := f.Parse([]string{arg})
		if err == nil {
			_, err = o.Complete(f)
		}
		name, _, _ := strings.Cut(arg, "=")
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v, want %q", arg, err, want)
		}
	}
	// The remedy of a flag works.
	if _, _, err := complete(t, "--register-with-taints=node.kubernetes.io/unschedulable=:NoSchedule"); err != nil {
		t.Error(err)
	}
}

func TestHonouredKubeletFlags(t *testing.T) {
	o, notices, err := complete(t, "--serialize-image-pulls", "--node-status-update-frequency=7s",
		"--node-status-max-images=3", "-v", "5", "--logging-format=json",
		"--container-runtime-endpoint=unix:///x", "--image-service-endpoint=/x")
	if err != nil || len(notices) > 0 {
		t.Fatal(notices, err)
	}
	if o.Runtime.ParallelPulls != 1 || o.Cluster.StatusUpdate != 7*time.Second || o.Cluster.Images != 3 || !o.Log.Debug ||
		o.Log.Format != "json" {
		t.Errorf("%+v %+v %+v", o.Runtime, o.Cluster.Registration, o.Log)
	}
	if o, _, err = complete(t, "-v=2", "--logging-format=json", "--log-format=text",
		"--serialize-image-pulls=false"); err != nil || o.Log.Debug || o.Log.Format != "text" ||
		o.Runtime.ParallelPulls != 0 {
		t.Errorf("%+v %+v %v", o.Log, o.Runtime, err)
	}
}

// Each of these flags reports why, and is hidden from the help.
func TestKubeletFlagsAreComplete(t *testing.T) {
	f := pflag.NewFlagSet("run", pflag.ContinueOnError)
	(&Options{}).AddFlags(f)
	for _, k := range KubeletFlags() {
		if k.Why == "" && len(k.Values) == 0 {
			t.Errorf("--%s has no explanation", k.Name)
		}
		if !f.Lookup(k.Name).Hidden {
			t.Errorf("--%s is in the help", k.Name)
		}
	}
}

package config

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// reportedBy returns what a daemon with these options reports, as a client decodes it.
func reportedBy(t *testing.T, o *Options) map[string]any {
	t.Helper()
	data, err := json.Marshal(o.KubeletConfiguration(RuntimeDefaults{"cgroupfs", 5}))
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(data, &fields); err != nil {
		t.Fatal(err)
	}
	return fields
}

// restart writes a configuration to a file and uses it with the same flags.
func restart(t *testing.T, fields map[string]any, flags ...string) (*Options, []string, error) {
	t.Helper()
	data, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return complete(t, append([]string{"--config=" + path}, flags...)...)
}

// notInForce are the fields without a counterpart here: nothing of what they set exists in
// podstead, or a cluster decides it.
var notInForce = strings.Fields(`
containerLogMaxWorkers containerLogMonitorInterval contentType cpuManagerReconcilePeriod
enableControllerAttachDetach hairpinMode iptablesDropBit iptablesMasqueradeBit
kubeletCgroups logging makeIPTablesUtilChains maxOpenFiles
qosReserved registryBurst
showHiddenMetricsForVersion systemCgroups tlsCurvePreferences
volumePluginDir`)

// onlyIfSet are the fields that are reported only if they have a value, and onlyInCluster
// those that are in force only in a cluster.
var (
	onlyIfSet = strings.Fields("podCIDR reservedMemory topologyManagerPolicyOptions featureGates kubeReservedCgroup " +
		"systemReservedCgroup singleProcessOOMKill cpuManagerPolicyOptions reservedSystemCPUs staticPodURL " +
		"staticPodURLHeader containerRuntimeEndpoint imageServiceEndpoint tlsCertFile tlsPrivateKeyFile clusterDomain " +
		"providerID preloadedImagesVerificationAllowlist tracing")
	onlyInCluster = strings.Fields("registerWithTaints nodeStatusUpdateFrequency nodeStatusReportFrequency " +
		"nodeLeaseDurationSeconds nodeStatusMaxImages authorization kubeAPIQPS kubeAPIBurst eventRecordQPS eventBurst " +
		"imagePullCredentialsVerificationPolicy")
)

func TestConfigzHasEachFieldInForce(t *testing.T) {
	o, _, err := complete(t)
	if err != nil {
		t.Fatal(err)
	}
	got := reportedBy(t, o)
	var want []string
	for _, name := range KnownFields() {
		if !slices.Contains(slices.Concat(notInForce, onlyIfSet, onlyInCluster), name) {
			want = append(want, name)
		}
	}
	delete(got, "apiVersion")
	delete(got, "kind")
	if d := cmp.Diff(want, slices.Sorted(maps.Keys(got))); d != "" {
		t.Error(d)
	}
	for name, want := range map[string]any{
		"cgroupRoot": "/", "podPidsLimit": -1.0, "maxPods": 110.0, "shutdownGracePeriod": "1m30s",
		"shutdownGracePeriodCriticalPods": "30s",
		"maxParallelImagePulls":           5.0, "evictionPressureTransitionPeriod": "5m0s",
		"streamingConnectionIdleTimeout": "4h0m0s",
	} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	if hard, _ := got["evictionHard"].(map[string]any); hard["memory.available"] != "100Mi" || len(hard) != 5 {
		t.Errorf("evictionHard is %v", hard)
	}
}

// The configuration that a daemon reports can be used as its --config, with the same flags or,
// where the file has the setting, without them, and means the same.
func TestConfigzRoundTrip(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	join := "--kubeconfig=" + kubeconfig
	for name, c := range map[string]struct{ flags, kept []string }{
		"defaults": {},
		"other values": {flags: []string{
			"--read-only-port=10255", "--container-log-max-size=5Mi", "--system-reserved=cpu=500m", "--cluster-dns=10.0.0.1",
			"--cluster-domain=cluster.local",
			"--max-pods=7", "--pods-per-core=3", "--pod-max-pids=50", "--resolv-conf=", "--eviction-hard=memory.available<5%",
			"--eviction-soft=nodefs.available<10Gi",
			"--eviction-soft-grace-period=nodefs.available=1m", "--eviction-minimum-reclaim=memory.available=1Mi",
			"--eviction-max-pod-grace-period=9",
			"--eviction-pressure-transition-period=7s", "--shutdown-grace-period=40s", "--enforce-node-allocatable=none",
			"--cpu-cfs-quota=false",
			"--cpu-cfs-quota-period=50ms", "--healthz-port=0", "--port=10251", "--tls-min-version=VersionTLS13",
			"--seccomp-default", "--profiling",
			"--allowed-unsafe-sysctls=net.core.*", "--pod-logs-dir=/logs", "--streaming-connection-idle-timeout=1m",
			"--volume-stats-agg-period=3s",
			"--rotate-certificates=false", "--cgroup-root=/pods.slice/podstead", "--enable-debugging-handlers=false",
			"--image-gc-high-threshold=70",
			"--image-gc-low-threshold=60", "--maximum-image-ttl-duration=48h", "--kube-reserved=memory=1Gi",
			"--runtime-request-timeout=90s",
			"--max-container-restart-period=30s", "--container-runtime-endpoint=unix:///run/x.sock", "--pod-manifest-path=/pods",
			"--manifest-url=http://127.0.0.1/pods",
		}},
		"no eviction, shutdown by priority": {
			flags: []string{"--eviction-hard=", "--shutdown-grace-period-by-pod-priority=0=20s,1000=10s"}},
		"no shutdown":            {flags: []string{"--shutdown-grace-period=0"}},
		"a root of another name": {flags: []string{"--cgroup-root=/other"}, kept: []string{"--cgroup-root=/other"}},
		"a cluster": {flags: []string{join, "--register-with-taints=a=b:NoSchedule", "--provider-id=x"},
			kept: []string{join}},
		"secrets": {
			flags: []string{"--manifest-url=http://user:secret@127.0.0.1/pods?key=secret", "--manifest-url-header=X:secret"},
			kept:  []string{"--manifest-url=http://user:secret@127.0.0.1/pods?key=secret", "--manifest-url-header=X:secret"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			first, _, err := complete(t, c.flags...)
			if err != nil {
				t.Fatal(err)
			}
			reported := reportedBy(t, first)
			if text, _ := json.Marshal(reported); strings.Contains(string(text), "secret") {
				t.Errorf("a secret is reported: %s", text)
			}
			second, notices, err := restart(t, reported, c.kept...)
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range notices {
				if strings.Contains(n, "not support") || strings.Contains(n, "no effect") {
					t.Error(n)
				}
			}
			if d := cmp.Diff(reported, reportedBy(t, second)); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff(first.Shutdown.Policy, second.Shutdown.Policy); d != "" {
				t.Errorf("shutdown: %s", d)
			}
			if d := cmp.Diff(first.Eviction.Thresholds, second.Eviction.Thresholds); d != "" {
				t.Errorf("eviction: %s", d)
			}
			if first.Cgroups.Root != second.Cgroups.Root || first.Cgroups.PodPids != second.Cgroups.PodPids ||
				first.Network.ResolvConf != second.Network.ResolvConf {
				t.Errorf("cgroups %+v, then %+v", first.Cgroups, second.Cgroups)
			}
		})
	}
}

// An edit of one field changes that field only.
func TestConfigzEdit(t *testing.T) {
	first, _, err := complete(t)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]any{
		"maxPods": 30.0, "podPidsLimit": 100.0, "cgroupRoot": "/system.slice",
		"evictionHard":        map[string]any{"memory.available": "1Gi"},
		"shutdownGracePeriod": "40s", "resolvConf": "", "cpuCFSQuota": false, "healthzPort": 0.0,
		"imageGCHighThresholdPercent": 90.0,
		"systemReserved":              map[string]any{"cpu": "100m"}, "evictionPressureTransitionPeriod": "1m0s",
		"maxParallelImagePulls": 3.0,
		"tracing":               map[string]any{"endpoint": "collector:4317", "samplingRatePerMillion": 100.0},
		"crashLoopBackOff":      map[string]any{"maxContainerRestartPeriod": "10s"}, "rotateCertificates": false,
		"clusterDNS": []any{"10.0.0.1"},
	} {
		fields := reportedBy(t, first)
		fields[name] = value
		second, notices, err := restart(t, fields)
		if err != nil || len(notices) > 0 {
			t.Errorf("%s: %v, %v", name, notices, err)
			continue
		}
		if d := cmp.Diff(fields, reportedBy(t, second)); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

func TestMaskedSecretIsAnError(t *testing.T) {
	secret := []string{"--manifest-url=http://127.0.0.1/pods?key=secret", "--manifest-url-header=X:secret"}
	first, _, err := complete(t, secret...)
	if err != nil {
		t.Fatal(err)
	}
	fields := reportedBy(t, first)
	for i, field := range []string{"staticPodURL", "staticPodURLHeader.X"} {
		if _, _, err := restart(t, fields, secret[1-i]); err == nil || !strings.Contains(err.Error(), field) ||
			!strings.Contains(err.Error(), "config.json") {
			t.Errorf("masked %s: %v", field, err)
		}
	}
}

package config

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

var updateGolden = flag.Bool("update-golden", false, "rewrite testdata/golden")

// golden compares a text with the file of that name in testdata/golden: what users see of the
// settings changes only on purpose.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata/golden", name)
	if *updateGolden {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got == string(want) {
		return
	}
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i := range max(len(gotLines), len(wantLines)) {
		line := func(lines []string) string {
			if i < len(lines) {
				return lines[i]
			}
			return "(no line)"
		}
		if a, b := line(gotLines), line(wantLines); a != b {
			t.Errorf("%s:%d:\n got %s\nwant %s", path, i+1, a, b)
		}
	}
}

func TestGoldenHelp(t *testing.T) {
	f := pflag.NewFlagSet("run", pflag.ContinueOnError)
	(&Options{}).AddFlags(f)
	golden(t, "help.txt", f.FlagUsages())
}

// richFile sets most settings to values that are not the default.
const richFile = kubeletHead + `staticPodPath: pods
staticPodURL: http://user:secret@127.0.0.1:8080/pods?a=b
staticPodURLHeader: {X-Token: [a, b]}
fileCheckFrequency: 5s
httpCheckFrequency: 7s
containerRuntimeEndpoint: unix:///run/crio/crio.sock
runtimeRequestTimeout: 90s
podLogsDir: /data/logs
serializeImagePulls: true
imagePullCredentialsVerificationPolicy: NeverVerifyAllowlistedImages
preloadedImagesVerificationAllowlist: [r.test/app, r.test/team/*]
crashLoopBackOff: {maxContainerRestartPeriod: 30s}
healthzBindAddress: 127.0.0.2
healthzPort: 10249
seccompDefault: true
allowedUnsafeSysctls: [net.core.*, kernel/sem]
authorization: {mode: AlwaysAllow, webhook: {cacheAuthorizedTTL: 3m, cacheUnauthorizedTTL: 1s}}
cgroupRoot: /edge
cgroupDriver: systemd
podPidsLimit: 100
maxPods: 12
podsPerCore: 4
cpuCFSQuota: false
cpuCFSQuotaPeriod: 50ms
enforceNodeAllocatable: [none]
systemReserved: {memory: 200Mi, pid: 1000}
kubeReserved: {cpu: 100m, memory: 50Mi}
singleProcessOOMKill: true
cpuManagerPolicy: static
cpuManagerPolicyOptions: {full-pcpus-only: "true"}
reservedSystemCPUs: 0-1
memoryManagerPolicy: Static
reservedMemory: [{numaNode: 0, limits: {memory: 350Mi}}]
topologyManagerPolicy: restricted
topologyManagerScope: pod
topologyManagerPolicyOptions: {max-allowable-numa-nodes: "9"}
memoryThrottlingFactor: 0.9
evictionHard: {memory.available: 100Mi, pid.available: 10}
evictionSoft: {nodefs.available: 10Gi}
evictionSoftGracePeriod: {nodefs.available: 1m}
evictionMinimumReclaim: {memory.available: 50Mi}
mergeDefaultEvictionSettings: true
evictionPressureTransitionPeriod: 10s
evictionMaxPodGracePeriod: 60
clusterDNS: [10.0.0.10]
clusterDomain: cluster.local.
podCIDR: 10.100.0.1/16
resolvConf: ""
containerLogMaxSize: 5Mi
containerLogMaxFiles: 3
imageGCHighThresholdPercent: 70
imageGCLowThresholdPercent: 60
imageMinimumGCAge: 3m
imageMaximumGCAge: 48h
volumeStatsAggPeriod: 5s
streamingConnectionIdleTimeout: 1h
address: 192.0.2.1
port: 10251
readOnlyPort: 10255
tlsCertFile: tls.crt
tlsPrivateKeyFile: /tls.key
tlsMinVersion: VersionTLS13
tlsCipherSuites: [TLS_AES_128_GCM_SHA256]
enableDebuggingHandlers: false
enableProfilingHandler: true
authentication: {x509: {clientCAFile: ca.crt}, webhook: {enabled: true, cacheTTL: 1m}, anonymous: {enabled: true}}
rotateCertificates: false
registerNode: false
registerWithTaints: [{key: a, value: b, effect: NoSchedule, timeAdded: null}]
providerID: x://y
nodeStatusUpdateFrequency: 20s
nodeLeaseDurationSeconds: 60
nodeStatusMaxImages: 10
kubeAPIQPS: 7
kubeAPIBurst: 8
eventRecordQPS: 9
eventBurst: 0
tracing: {endpoint: 'collector:4317', samplingRatePerMillion: 100}
shutdownGracePeriodByPodPriority: [{priority: 5, shutdownGracePeriodSeconds: 7}, {priority: 1000, shutdownGracePeriodSeconds: 9}]
featureGates: {MemoryQoS: false, Other: true}
maxOpenFiles: 5
logging: {verbosity: 4}
---
` + ownHead + `rootDir: root
containerLogsDir: /data/links
devicePluginDir: plugins
apiSocket: /run/x.sock
hostnameOverride: other
nodeIP: 192.0.2.1,2001:db8::1
nodeLabels: {a: b, c: d}
manifestURLCAFile: url.pem
manifestOCI: [registry.local/fleet/web:stable]
manifestVerifyKeys: [file=key.pub, /abs.pub]
manifestValidation: warn
podInfraContainerImage: pause:1
imageCredentialProviderConfig: creds.yaml
imageCredentialProviderBinDir: /bin
registryCAFile: ca.pem
plainHTTPRegistries: ['registry.local:5000']
imageArchivesDir: archives
cniConfDir: cni
podDNS: always
podDNSAddresses: [10.88.0.1/16]
runtimeClasses: {sandboxed: kata, other: "a,b=c"}
minimumContainerTTLDuration: 9s
maximumDeadContainersPerContainer: 2
maximumDeadContainers: 50
podLogsMaxSize: 10Mi
imageGCPeriod: 3m
rollbackAfter: 6m
imageAutoUpdateInterval: 6h
imageAutoUpdateWindows: ['Sat,Sun 02:00-05:00', '22:00-04:00']
tokenAuthFile: tokens
certDir: certs
cloudProvider: external
logFormat: json
debug: true
localDevices: {edge.example/serial: {paths: [/dev/ttyS0], podsPerDevice: 2}}
`

// TestGoldenOptions compares what a daemon reports and warns of and, for the rich file, all that it
// reads.
func TestGoldenOptions(t *testing.T) {
	dir := files(t, map[string]string{"config.yaml": richFile, "kubeconfig": ""})
	rich, cluster := "--config="+dir+"/config.yaml", "--kubeconfig="+dir+"/kubeconfig"
	var out strings.Builder
	write := func(v any) {
		data, err := json.MarshalIndent(v, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		out.Write(append(data, '\n'))
	}
	for _, args := range [][]string{
		{}, {rich}, {rich, cluster}, {"--config=testdata/kubeadm.yaml", cluster, "--v=5", "--fail-swap-on=false",
			"--node-status-update-frequency=7m"},
	} {
		o, notices, err := complete(t, args...)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "# %s\n", args)
		write(o.KubeletConfiguration(RuntimeDefaults{"cgroupfs", 5}))
		if len(args) == 1 {
			write(o)
		}
		for _, notice := range notices {
			out.WriteString(notice + "\n")
		}
	}
	golden(t, "options.txt", strings.ReplaceAll(out.String(), dir, "DIR"))
}

// wrong are one wrong input each: fields of a KubeletConfiguration, of a PodsteadConfiguration,
// or flags.
var wrong = []struct{ kubelet, own, args string }{
	{args: "--image-gc-period=1ms"}, {own: "imageGCPeriod: 1ms"}, {own: "imageGCPeriod: soon"}, {own: "imageGCPeriod: 5"},
	{args: "--image-gc-period=soon"},
	{args: "--max-pods=-1"}, {kubelet: "maxPods: -1"}, {kubelet: `maxPods: "5"`}, {kubelet: "maxPods: many"},
	{args: "--max-pods=x"},
	{own: "maximumDeadContainers: 1.5"}, {own: "debug: 'on'"}, {own: "rootdir: /x"}, {own: "maxPods: 1"},
	{kubelet: "rootDir: /x"}, {kubelet: "staticPodPaht: /x"}, {kubelet: "zzz: 1"},
	{own: "nodeLabels: [a]"}, {own: "nodeLabels: {a: true}"}, {own: "nodeLabels: {'a b': c}"},
	{args: "--node-labels=a b=c"}, {args: "--node-labels=x"},
	{own: "imageAutoUpdateWindows: 02:00-05:00"}, {own: "imageAutoUpdateWindows: [true]"},
	{own: "imageAutoUpdateWindows: [Sat 02:00]"}, {args: "--image-auto-update-window=never"},
	{args: "--image-auto-update-interval=59s"}, {own: "manifestValidation: lenient"}, {args: "--manifest-validation=lax"},
	{kubelet: "clusterDNS: [x]"}, {args: "--cluster-dns=kube-dns"}, {kubelet: "clusterDNS: 10.0.0.1"},
	{kubelet: "clusterDomain: a_b"}, {args: "--cluster-domain=a_b"},
	{kubelet: "podCIDR: 10.100.0.0"}, {args: "--pod-cidr=10.100.0.0/16,10.101.0.0/16"}, {args: "--node-ip=host"},
	{own: "nodeIP: 127.0.0.1"},
	{kubelet: "imageGCHighThresholdPercent: 70\nimageGCLowThresholdPercent: 80"},
	{args: "--image-gc-high-threshold=70", kubelet: "imageGCLowThresholdPercent: 80"},
	{args: "--image-gc-high-threshold=101"}, {kubelet: "imageMaximumGCAge: 1m"}, {args: "--maximum-image-ttl-duration=1m"},
	{kubelet: "containerLogMaxSize: ten"}, {args: "--container-log-max-size=ten"}, {kubelet: "containerLogMaxFiles: 1"},
	{args: "--container-log-max-files=1"}, {own: "podLogsMaxSize: x"},
	{kubelet: "fileCheckFrequency: 20"}, {kubelet: "fileCheckFrequency: -1s"}, {kubelet: "fileCheckFrequency: 1ms"},
	{args: "--file-check-frequency=0"},
	{kubelet: "healthzPort: 70000"}, {args: "--healthz-port=70000"}, {kubelet: "healthzPort: 1.5"},
	{kubelet: "healthzBindAddress: localhost"}, {args: "--healthz-bind-address=localhost"},
	{kubelet: "staticPodURLHeader: {A: b}"}, {kubelet: "staticPodURLHeader: {A: [31337]}"},
	{args: "--manifest-url-header=secret"}, {kubelet: "staticPodURL: ftp://x"}, {args: "--manifest-url=ftp://x"},
	{kubelet: "crashLoopBackOff: {maxContainerRestartPeriod: 10m}"}, {args: "--max-container-restart-period=6m"},
	{kubelet: "crashLoopBackOff: {max: 10m}"}, {kubelet: "crashLoopBackOff: 5"},
	{kubelet: "maxParallelImagePulls: 3\nserializeImagePulls: true"}, {kubelet: "maxParallelImagePulls: 0"},
	{kubelet: "serializeImagePulls: 1"},
	{kubelet: "imagePullCredentialsVerificationPolicy: Sometimes"},
	{kubelet: "preloadedImagesVerificationAllowlist: [r.test/app]"},
	{kubelet: "imagePullCredentialsVerificationPolicy: " +
		"NeverVerifyAllowlistedImages\npreloadedImagesVerificationAllowlist: [r.test/app, r.test/app:1]"},
	{kubelet: "systemReserved: {cpu: [1]}"}, {kubelet: "systemReserved: [cpu]"}, {kubelet: "systemReserved: {gpu: 1}"},
	{args: "--system-reserved=gpu=1"}, {args: "--kube-reserved=cpu=-1"},
	{kubelet: "enforceNodeAllocatable: [all]"}, {kubelet: "enforceNodeAllocatable: pods"},
	{args: "--enforce-node-allocatable=none,pods"},
	{kubelet: "enforceNodeAllocatable: [kube-reserved]\nkubeReserved: {pid: 10}"},
	{kubelet: "kubeReservedCgroup: x\nenforceNodeAllocatable: [kube-reserved]\nkubeReserved: {pid: 10}"},
	{kubelet: "kubeReservedCgroup: /x.slice\nenforceNodeAllocatable: [kube-reserved]\nkubeReserved: {pid: 10}"},
	{kubelet: "cgroupDriver: runc"}, {args: "--cgroup-driver=runc"}, {args: "--cgroup-root=/kubepods"},
	{kubelet: "cgroupRoot: 'a b'"}, {args: "--pod-max-pids=-2"}, {kubelet: "podPidsLimit: -2"},
	{kubelet: "cpuCFSQuota: maybe"}, {kubelet: "cpuCFSQuotaPeriod: 2s"}, {args: "--cpu-cfs-quota-period=2s"},
	{kubelet: "singleProcessOOMKill: false"}, {kubelet: "qosReserved: {memory: 50%}"}, {kubelet: "cgroupsPerQOS: false"},
	{kubelet: "cpuManagerPolicy: dynamic"}, {kubelet: "cpuManagerPolicy: static"},
	{kubelet: "cpuManagerPolicyOptions: {full-pcpus-only: true}"},
	{kubelet: "cpuManagerPolicyOptions: {full-pcpus-only: 'true'}"}, {kubelet: "reservedSystemCPUs: 3-4"},
	{args: "--reserved-cpus=9999"},
	{kubelet: "memoryManagerPolicy: static"}, {kubelet: "memoryManagerPolicy: Static"},
	{kubelet: "reservedMemory: {memory: 1Gi}"}, {kubelet: "reservedMemory: [{}]"},
	{kubelet: "reservedMemory: [{node: 0, limits: {memory: 1Gi}}]"}, {kubelet: "reservedMemory: [{numaNode: 0}]"},
	{args: "--reserved-memory=0:cpu=1"},
	{kubelet: "memoryManagerPolicy: Static\nreservedMemory: [{numaNode: 1, limits: {memory: 100Mi}}]"},
	{kubelet: "topologyManagerPolicy: aligned"}, {kubelet: "topologyManagerScope: node"},
	{args: "--topology-manager-policy-options=a=b"},
	{kubelet: "topologyManagerPolicy: restricted\ntopologyManagerPolicyOptions: {max: '1'}"},
	{kubelet: "cpuManagerPolicy: static\nreservedSystemCPUs: '0'\ncpuManagerPolicyOptions: {align-by-socket: 'true'}"},
	{kubelet: "memorySwap: {swapBehavior: UnlimitedSwap}"}, {kubelet: "memorySwap: {swapBehavior: LimitedSwap}"},
	{kubelet: "memorySwap: {swap: 1}"}, {kubelet: "featureGates: {MemoryQoS: 1}"},
	{kubelet: "featureGates: {MemoryQoS: true}"}, {kubelet: "memoryThrottlingFactor: 1.5"},
	{kubelet: "memoryThrottlingFactor: 0.5"},
	{kubelet: "memoryReservationPolicy: All"}, {kubelet: "memoryReservationPolicy: TieredReservation"},
	{args: "--feature-gates=MemoryQoS=true"},
	{kubelet: "evictionHard: [memory]"}, {kubelet: "evictionHard: {memory.available: [1]}"},
	{kubelet: "evictionHard: {memory: 1Gi}"}, {kubelet: "evictionSoft: {memory.available: 1Gi}"},
	{args: "--eviction-soft=memory.available<1Gi"}, {args: "--eviction-hard=memory<1Gi"},
	{args: "--eviction-hard=memory.available=1"},
	{kubelet: "evictionMaxPodGracePeriod: -1"}, {args: "--eviction-max-pod-grace-period=-1"},
	{args: "--eviction-pressure-transition-period=-1s"},
	{kubelet: "authorization: {mode: RBAC}"}, {args: "--authorization-mode=RBAC"},
	{kubelet: "authentication: {x509: {caFile: /x}}"}, {kubelet: "authentication: {webhook: {enabled: maybe}}"},
	{kubelet: "authentication: 1"}, {args: "--authentication-token-webhook-cache-ttl=-1s"},
	{args: "--port=70000"}, {kubelet: "port: -1"}, {args: "--port=10255 --read-only-port=10255"},
	{kubelet: "address: localhost"}, {kubelet: "tlsCertFile: /x"}, {args: "--tls-private-key-file=/x"},
	{kubelet: "tlsMinVersion: VersionTLS11"}, {kubelet: "tlsCipherSuites: [RC4]"},
	{kubelet: "registerWithTaints: [{key: a, affect: NoSchedule}]"},
	{kubelet: "registerWithTaints: [{key: a, effect: Never}]"}, {kubelet: "registerWithTaints: {}"},
	{args: "--register-with-taints=a=b"}, {args: "--register-with-taints=a=1:NoExecute,a=2:NoExecute"},
	{kubelet: "nodeLeaseDurationSeconds: 1"}, {kubelet: "nodeStatusUpdateFrequency: 9m\nnodeStatusReportFrequency: 1m"},
	{kubelet: "nodeStatusMaxImages: -2"}, {args: "--event-burst=-1"}, {kubelet: "kubeAPIQPS: -1"},
	{args: "--cloud-provider=aws"}, {own: "cloudProvider: aws"},
	{args: "--bootstrap-kubeconfig=/x"}, {own: "kubeconfig: none"}, {own: "bootstrapKubeconfig: none\nkubeconfig: none"},
	{args: "--kubeconfig=/dev/null --rotate-server-certificates --tls-cert-file=/c --tls-private-key-file=/k"},
	{kubelet: "serverTLSBootstrap: true\ntlsCertFile: c\ntlsPrivateKeyFile: k"},
	{args: "--kubeconfig=/dev/null --node-labels=x.k8s.io/a=1"},
	{kubelet: "tracing: {endpoint: 'http://x/y'}"}, {kubelet: "tracing: {samplingRatePerMillion: 2000000}"},
	{kubelet: "tracing: {rate: 1}"},
	{kubelet: "shutdownGracePeriod: 2h"}, {args: "--shutdown-grace-period=2h"},
	{kubelet: "shutdownGracePeriod: 30s\nshutdownGracePeriodCriticalPods: 40s"},
	{kubelet: "shutdownGracePeriod: 30s\nshutdownGracePeriodByPodPriority: [{priority: 1, shutdownGracePeriodSeconds: 20}]"},
	{kubelet: "shutdownGracePeriodByPodPriority: [{priority: 1, shutdownGracePeriodSeconds: 20}, {priority: 1, " +
		"shutdownGracePeriodSeconds: 20}]"}, {kubelet: "shutdownGracePeriodByPodPriority: [1]"},
	{kubelet: "shutdownGracePeriodByPodPriority: [{prio: 1}]"}, {args: "--shutdown-grace-period-by-pod-priority=x=20s"},
	{args: "--shutdown-grace-period-by-pod-priority=1=20"},
	{args: "--shutdown-grace-period-by-pod-priority=1=20s --shutdown-grace-period=3s"},
	{args: "--shutdown-grace-period-by-pod-priority=1=2h"},
	{args: "--pod-dns=on"}, {own: "podDNS: on"}, {own: "podDNS: maybe"}, {own: "podDNSAddresses: [10.88.0.1]"},
	{args: "--pod-dns-address=10.0.0.1/0"}, {own: "plainHTTPRegistries: [a/b]"}, {own: "manifestOCI: [x]"},
	{own: "manifestVerifyKeys: [file=]"},
	{own: "rollbackAfter: 25h"}, {args: "--rollback-after=1ms"}, {args: "--pod-manifest-path="}, {args: "--root-dir="},
	{own: "rootDir: ''"},
	{own: "apiSocket: /xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}, {own: "imageCredentialProviderConfig: x"},
	{args: "--allowed-unsafe-sysctls=vm.x"}, {kubelet: "allowedUnsafeSysctls: [vm.x]"}, {kubelet: "seccompDefault: 1"},
	{args: "--log-format=xml"}, {own: "logFormat: xml"}, {args: "--streaming-connection-idle-timeout=-1s"},
	{args: "--volume-stats-agg-period=-1s"}, {args: "--minimum-container-ttl-duration=-1s"},
	{own: "localDevices: [x]"}, {own: "localDevices: {serial: {paths: [/dev/ttyS0]}}"},
	{own: "localDevices: {edge.example/serial: {path: [/dev/ttyS0]}}"}, {own: "localDevices: {edge.example/serial: {}}"},
	{args: "--enable-server=false"}, {args: "--v=much"}, {args: "--cgroups-per-qos=false"},
	{args: "--image-service-endpoint=unix:///x"}, {args: "--serialize-image-pulls=maybe"},
	{args: "--node-status-max-images=-2"},
	{kubelet: "staticPodURL: http://x/?%3Cmasked%3E"},
	{kubelet: "staticPodURL: http://x/\nstaticPodURLHeader: {X: [<masked>]}"},
	{args: "--config=/nonexistent.yaml"}, {own: "kubeconfig: 7"},
	{own: "kubeconfig: null\nmanifestOCI: null\nnodeLabels: {}"}, {kubelet: "maxPods: null"}, {kubelet: "resolvConf: 5"},
	{kubelet: "- a"}, {kubelet: "a: b: c"},
}

func TestGoldenErrors(t *testing.T) {
	var out strings.Builder
	for _, c := range wrong {
		text, args := "", strings.Fields(c.args)
		if strings.Contains(c.args, "a b=c") {
			args = []string{c.args}
		}
		if c.kubelet != "" {
			text += kubeletHead + c.kubelet + "\n---\n"
		}
		if c.own != "" {
			text += ownHead + c.own + "\n"
		}
		dir := "/none"
		if text != "" {
			dir = files(t, map[string]string{"config.yaml": text})
			args = append(args, "--config="+dir+"/config.yaml")
		}
		fmt.Fprintf(&out, "# %q %q %s\n", c.kubelet, c.own, c.args)
		o := Options{host: testHost(t)}
		f := pflag.NewFlagSet("run", pflag.ContinueOnError)
		o.AddFlags(f)
		err := f.Parse(args)
		var notices []string
		if err == nil {
			notices, err = o.Complete(f)
		}
		inFile := (*FileError)(nil)
		kind := "flag: "
		if errors.As(err, &inFile) {
			kind = "file: "
		}
		if err == nil {
			kind = "none"
		} else {
			kind += strings.NewReplacer(dir, "DIR", o.host, "HOST").Replace(err.Error())
		}
		fmt.Fprintln(&out, kind)
		for _, notice := range notices {
			fmt.Fprintln(&out, "notice: "+strings.ReplaceAll(notice, dir, "DIR"))
		}
	}
	golden(t, "errors.txt", out.String())
}

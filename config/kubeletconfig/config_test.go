package kubeletconfig

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podstead/podstead/config/configfile"
)

const head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"

func write(t *testing.T, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(body), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Read reads a file with one KubeletConfiguration.
func Read(path string) (*Config, error) {
	files, err := configfile.Load(path, "", Kind)
	if err != nil {
		return nil, err
	}
	cfg, errs := Parse(files.Merged(Kind.Kind), nil)
	return cfg, errors.Join(errs...)
}

func TestReadSupportsEachField(t *testing.T) {
	path := write(t, head+`
staticPodPath: pods
staticPodURL: http://127.0.0.1:8080/pods
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
healthzPort: 0
seccompDefault: true
allowedUnsafeSysctls: [net.core.*]
authorization: {mode: Webhook, webhook: {cacheAuthorizedTTL: 3m, cacheUnauthorizedTTL: 0s}}
failSwapOn: false
failCgroupV1: false
cgroupsPerQOS: true
cgroupRoot: /
cgroupDriver: systemd
podPidsLimit: 100
cpuCFSQuota: false
cpuCFSQuotaPeriod: 50ms
enforceNodeAllocatable: [none]
systemReservedCgroup: /system.slice
kubeReservedCgroup: /kube.slice
systemReserved: {memory: 1Gi, pid: 1000}
kubeReserved: {cpu: 100m}
singleProcessOOMKill: true
cpuManagerPolicy: static
cpuManagerPolicyOptions: {full-pcpus-only: "true"}
reservedSystemCPUs: 0-1
memoryManagerPolicy: Static
reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}, {numaNode: 1, limits: {memory: 512Mi}}]
topologyManagerPolicy: restricted
topologyManagerScope: pod
topologyManagerPolicyOptions: {prefer-closest-numa-nodes: "true"}
memorySwap: {swapBehavior: LimitedSwap}
featureGates: {MemoryQoS: true}
memoryThrottlingFactor: 0.5
memoryReservationPolicy: TieredReservation
evictionHard: {memory.available: 5%, pid.available: 1000}
evictionSoft: {nodefs.available: 10Gi}
evictionSoftGracePeriod: {nodefs.available: 1m}
evictionMinimumReclaim: {memory.available: 50Mi}
mergeDefaultEvictionSettings: true
evictionPressureTransitionPeriod: 10s
evictionMaxPodGracePeriod: 60
address: 192.0.2.1
port: 10251
readOnlyPort: 10255
tlsCertFile: tls.crt
tlsPrivateKeyFile: /tls.key
tlsMinVersion: VersionTLS13
tlsCipherSuites: [TLS_AES_128_GCM_SHA256]
enableDebuggingHandlers: false
enableProfilingHandler: true
authentication: {x509: {clientCAFile: ca.crt}, webhook: {enabled: false, cacheTTL: 1m}, anonymous: {enabled: false}}
rotateCertificates: true
serverTLSBootstrap: true
`)
	got, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	d := func(d time.Duration) *time.Duration { return &d }
	n := func(n int) *int { return &n }
	yes, half := true, 0.5
	want := &Config{
		StaticPodPath:                          filepath.Join(filepath.Dir(path), "pods"),
		StaticPodURL:                           "http://127.0.0.1:8080/pods",
		StaticPodURLHeader:                     map[string][]string{"X-Token": {"a", "b"}},
		FileCheckFrequency:                     d(5 * time.Second),
		HTTPCheckFrequency:                     d(7 * time.Second),
		ContainerRuntimeEndpoint:               "unix:///run/crio/crio.sock",
		RuntimeRequestTimeout:                  d(90 * time.Second),
		PodLogsDir:                             "/data/logs",
		MaxParallelImagePulls:                  n(1),
		ImagePullCredentialsVerificationPolicy: "NeverVerifyAllowlistedImages",
		PreloadedImagesVerificationAllowlist:   []string{"r.test/app", "r.test/team/*"},
		MaxContainerRestartPeriod:              d(30 * time.Second),
		HealthzBindAddress:                     "127.0.0.2",
		HealthzPort:                            n(0),
		SeccompDefault:                         &yes,
		AllowedUnsafeSysctls:                   []string{"net.core.*"},
		Cgroups: Cgroups{
			Root: "/", Driver: "systemd", PodPids: n(100), CPUQuota: new(bool), QuotaPeriod: d(50 * time.Millisecond), Enforce: []string{"none"}, SystemCgroup: "/system.slice", KubeCgroup: "/kube.slice",
			SystemReserved: map[string]string{"memory": "1Gi", "pid": "1000"}, KubeReserved: map[string]string{"cpu": "100m"}, SingleProcessOOMKill: &yes,
			FailSwapOn: new(bool),
		},
		CPUs:          CPUs{Policy: "static", Options: map[string]string{"full-pcpus-only": "true"}, Reserved: "0-1"},
		MemoryManager: MemoryManager{Policy: "Static", Reserved: []MemoryReservation{{0, map[string]string{"memory": "1Gi"}}, {1, map[string]string{"memory": "512Mi"}}}},
		Topology:      Topology{Policy: "restricted", Scope: "pod", Options: map[string]string{"prefer-closest-numa-nodes": "true"}},
		Memory:        Memory{Swap: "LimitedSwap", QoS: true, Throttling: &half, Reservation: "TieredReservation"},
		Eviction: Eviction{
			Hard: map[string]string{"memory.available": "5%", "pid.available": "1000"}, Soft: map[string]string{"nodefs.available": "10Gi"},
			SoftGracePeriod: map[string]string{"nodefs.available": "1m"}, MinimumReclaim: map[string]string{"memory.available": "50Mi"},
			MergeDefaults: &yes, TransitionPeriod: d(10 * time.Second), MaxPodGracePeriod: n(60),
		},
		Remote: Remote{
			Address: "192.0.2.1", Port: n(10251), ReadOnlyPort: n(10255), CertFile: filepath.Join(filepath.Dir(path), "tls.crt"), KeyFile: "/tls.key",
			ClientCAFile: filepath.Join(filepath.Dir(path), "ca.crt"), MinVersion: "VersionTLS13", CipherSuites: []string{"TLS_AES_128_GCM_SHA256"},
			Debugging: new(bool), Profiling: &yes, RotateCertificates: &yes, ServerTLSBootstrap: &yes,
			Reviews: Reviews{Tokens: new(bool), TokenTTL: d(time.Minute), Mode: "Webhook", AllowedTTL: d(3 * time.Minute)},
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("Read:\n got %+v\nwant %+v", got, want)
	}
}

func TestReadReportsUnsupportedFields(t *testing.T) {
	got, err := Read(write(t, head+"maxOpenFiles: 5\nauthorization: {mode: Webhook, webhook: {cacheAuthorizedTTL: 1m}}\nevictionHard: null\nevictionSoft: {containerfs.available: 5%}\nauthentication: {webhook: {enabled: true}, anonymous: {enabled: true}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"authentication.anonymous.enabled", "evictionSoft.containerfs.available", "maxOpenFiles"}; !slices.Equal(got.Ignored, want) {
		t.Errorf("Ignored = %v, want %v", got.Ignored, want)
	}
}

// A field about resources that cannot be honoured is an error with its position and what to do.
func TestUnsupportedResourceFields(t *testing.T) {
	path := write(t, head+`qosReserved: {memory: 50%}
cgroupsPerQOS: false
localStorageCapacityIsolation: false
`)
	got, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, err := range got.Unsupported {
		texts = append(texts, err.Error())
	}
	for _, want := range []string{
		":3: qosReserved: is not supported: memory is not reserved by QoS class; remove the field", ":4: cgroupsPerQOS: false ", ":5: localStorageCapacityIsolation: false ",
	} {
		if !slices.ContainsFunc(texts, func(text string) bool {
			return strings.HasPrefix(text, path+want) && strings.Contains(text, "is not supported: ") && strings.Contains(text, "; ")
		}) {
			t.Errorf("no error %q in %q", want, texts)
		}
	}
	if len(texts) != 3 || len(got.Ignored) > 0 {
		t.Errorf("%d errors, ignored are %v", len(texts), got.Ignored)
	}
	// The defaults of a kubelet are none.
	if got, err = Read(write(t, head+"cpuManagerPolicy: none\ncpuManagerPolicyOptions: {}\nmemoryManagerPolicy: None\nmemoryReservationPolicy: None\nmemoryThrottlingFactor: 0.9\ntopologyManagerPolicy: none\ncgroupsPerQOS: true\nmemorySwap: {}\nsystemReservedCgroup: ''\nreservedMemory: []\n")); err != nil || len(got.Unsupported) > 0 {
		t.Error(err, got.Unsupported)
	}
}

func TestReadErrors(t *testing.T) {
	for name, c := range map[string]struct{ body, want string }{
		"swap behaviour":          {head + "memorySwap: {swapBehavior: UnlimitedSwap}\n", "memorySwap.swapBehavior: UnlimitedSwap is not a valid behaviour; use NoSwap or LimitedSwap"},
		"reserved memory":         {head + "reservedMemory: {memory: 1Gi}\n", ":3: reservedMemory: must be a list, such as [{numaNode: 0, limits: {memory: 1Gi}}]"},
		"reserved memory of none": {head + "reservedMemory: [{}]\n", "reservedMemory[0]: must have numaNode and limits"},
		"reserved memory field":   {head + "reservedMemory: [{node: 0, limits: {memory: 1Gi}}]\n", "reservedMemory[0].node: unknown field; did you mean numaNode or limits?"},
		"reserved memory limits":  {head + "reservedMemory: [{numaNode: 0}]\n", "reservedMemory[0].limits: must have an amount"},
		"feature gate":            {head + "featureGates: {MemoryQoS: 1}\n", "featureGates.MemoryQoS: 1 is not a boolean"},
		"throttling":              {head + "memoryThrottlingFactor: 1.5\n", "memoryThrottlingFactor: 1.5 must be a number above 0, and at most 1"},
		"throttling without QoS":  {head + "memoryThrottlingFactor: 0.5\n", ":3: memoryThrottlingFactor: 0.5 has an effect only with memory QoS; set featureGates: {MemoryQoS: true}"},
		"reservation":             {head + "memoryReservationPolicy: All\n", "memoryReservationPolicy: All is not a policy"},
		"reservation without QoS": {head + "memoryReservationPolicy: TieredReservation\n", "TieredReservation has an effect only with memory QoS"},
		"CPU options":             {head + "cpuManagerPolicyOptions: {full-pcpus-only: true}\n", "cpuManagerPolicyOptions.full-pcpus-only: true is not a string; quote it"},
		"unknown field":           {head + "staticPodPaht: /x\n", "staticPodPaht: unknown field; did you mean staticPodPath?"},
		"nothing similar":         {head + "zzz: 1\n", "zzz: unknown field"},
		"pods":                    {head + "maxPods: -1\n", "maxPods: -1 must be an integer from 0"},
		"duplicate":               {head + "maxPods: 1\nmaxPods: 2\n", "maxPods"},
		"kind":                    {"apiVersion: v1\nkind: Pod\n", "must be kubelet.config.k8s.io/v1beta1"},
		"duration":                {head + "fileCheckFrequency: 20\n", "fileCheckFrequency: 20 is not a valid duration"},
		"negative":                {head + "fileCheckFrequency: -1s\n", `"-1s" is negative`},
		"port":                    {head + "healthzPort: 70000\n", "healthzPort: 70000 must be an integer from 0 to 65535"},
		"fraction":                {head + "healthzPort: 1.5\n", "1.5 must be an integer"},
		"header":                  {head + "staticPodURLHeader: {A: b}\n", "staticPodURLHeader.A: must be a list"},
		"header value":            {head + "staticPodURLHeader: {A: [31337]}\n", "staticPodURLHeader.A[0]: must be a string; quote it"},
		"headers":                 {head + "staticPodURLHeader: 31337\n", "staticPodURLHeader: must be a map of header to list of values"},
		"contradiction":           {head + "maxParallelImagePulls: 3\nserializeImagePulls: true\n", "conflicts with maxParallelImagePulls 3"},
		"verification":            {head + "imagePullCredentialsVerificationPolicy: Sometimes\n", `imagePullCredentialsVerificationPolicy: "Sometimes": must be NeverVerify, NeverVerifyPreloadedImages, NeverVerifyAllowlistedImages or AlwaysVerify`},
		"verification kind":       {head + "imagePullCredentialsVerificationPolicy: 1\n", "imagePullCredentialsVerificationPolicy: 1 is not a string"},
		"useless list":            {head + "preloadedImagesVerificationAllowlist: [r.test/app]\n", "preloadedImagesVerificationAllowlist: has an effect only with imagePullCredentialsVerificationPolicy: NeverVerifyAllowlistedImages"},
		"list of tags":            {head + "imagePullCredentialsVerificationPolicy: NeverVerifyAllowlistedImages\npreloadedImagesVerificationAllowlist: [r.test/app, r.test/app:1]\n", `preloadedImagesVerificationAllowlist[1]: "r.test/app:1": must have no tag`},
		"back-off":                {head + "crashLoopBackOff: {maxContainerRestartPeriod: 10m}\n", "10m0s must be from 1s to 5m"},
		"back-off field":          {head + "crashLoopBackOff: {max: 10m}\n", "crashLoopBackOff.max: unknown field"},
		"reserved":                {head + "systemReserved: {cpu: [1]}\n", "systemReserved.cpu: [1] is not a valid quantity"},
		"authorization":           {head + "authorization: {mode: RBAC}\n", `authorization.mode: "RBAC": must be AlwaysAllow or Webhook`},
		"authentication":          {head + "authentication: {x509: {caFile: /x}}\n", "authentication.x509.caFile: unknown field"},
		"eviction":                {head + "evictionHard: [memory]\n", "evictionHard: must be a map of signal to amount"},
		"threshold":               {head + "evictionHard: {memory.available: [1]}\n", "evictionHard.memory.available: [1] is not a string"},
		"taint":                   {head + "registerWithTaints: [{key: a, affect: NoSchedule}]\n", "registerWithTaints[0].affect: unknown field"},
		"lease":                   {head + "nodeLeaseDurationSeconds: 1\n", "nodeLeaseDurationSeconds: 1 must be an integer from 4"},
		"tracing":                 {head + "tracing: {endpoint: 'http://x/y'}\n", `tracing.endpoint: "http://x/y" must be HOST:PORT`},
		"sampling":                {head + "tracing: {samplingRatePerMillion: 2000000}\n", "tracing.samplingRatePerMillion: 2e+06 must be an integer from 0 to 1000000"},
		"traces":                  {head + "tracing: {rate: 1}\n", "tracing.rate: unknown field"},
		"boolean":                 {head + "cpuCFSQuota: maybe\n", "maybe is not a boolean"},
		"yaml":                    {"{", "YAML"},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, c.body)
			_, err := Read(path)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), path+":") {
				t.Errorf("Read = %v, want %q after the file's path", err, c.want)
			}
		})
	}
}

func TestReadReportsAllErrors(t *testing.T) {
	_, err := Read(write(t, head+"aaa: 1\nhealthzPort: x\nhttpCheckFrequency: y\n"))
	if err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("want three lines, got:\n%v", err)
	}
}

func TestEverySupportedFieldIsKnown(t *testing.T) {
	for name := range fields {
		if !slices.Contains(known, name) {
			t.Errorf("%s is supported but not a field of KubeletConfiguration", name)
		}
	}
	for name := range cgroupFields {
		if !slices.Contains(known, name) || fields[name] != nil {
			t.Errorf("%s is supported but not a field of KubeletConfiguration, or a duplicate", name)
		}
	}
	for name := range evictionFields {
		if !slices.Contains(known, name) || fields[name] != nil {
			t.Errorf("%s is supported but not a field of KubeletConfiguration, or a duplicate", name)
		}
	}
	for name := range remoteFields {
		if !slices.Contains(known, name) || fields[name] != nil || cgroupFields[name] != nil {
			t.Errorf("%s is supported but not a field of KubeletConfiguration, or a duplicate", name)
		}
	}
	for name := range nodeFields {
		if !slices.Contains(known, name) || fields[name] != nil {
			t.Errorf("%s is supported but not a field of KubeletConfiguration, or a duplicate", name)
		}
	}
	for name := range fixed {
		if !slices.Contains(known, name) {
			t.Errorf("%s has a fixed value but is not a field of KubeletConfiguration", name)
		}
	}
}

// The file that `kubeadm init` of 1.36 writes contains every field that is not a pointer, with
// zero values for defaults. None of those is reported as unsupported.
func TestReadKubeadmFile(t *testing.T) {
	got, err := Read("testdata/kubeadm.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Ignored) > 0 {
		t.Errorf("Ignored = %v", got.Ignored)
	}
	if got.StaticPodPath != "/etc/kubernetes/manifests" || got.Remote.ClientCAFile != "/etc/kubernetes/pki/ca.crt" || got.Eviction.TransitionPeriod != nil || got.FileCheckFrequency != nil {
		t.Errorf("%+v", got)
	}
}

package cri

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func testConfig() config {
	return config{instance: "me", logRoot: "/logs", memory: 16 << 30, masked: []string{"/proc/kcore"}}
}

func TestSandboxConfig(t *testing.T) {
	pod := desiredPod(v1.RestartPolicyAlways, []string{"a", "b"}, "i")
	pod.Labels = map[string]string{"app": "web", LabelInstance: "other"}
	pod.Annotations = map[string]string{"kubernetes.io/config.source": "file", "x": "y"}
	pod.Spec.Containers[0].Ports = []v1.ContainerPort{
		{ContainerPort: 80, HostPort: 8080, HostIP: "127.0.0.1", Protocol: v1.ProtocolTCP}}
	pod.Spec.Containers[1].Ports = []v1.ContainerPort{{ContainerPort: 53, HostPort: 53, Protocol: v1.ProtocolUDP},
		{ContainerPort: 9, Protocol: v1.ProtocolSCTP}}
	pod.Spec.InitContainers[0].Ports = []v1.ContainerPort{{ContainerPort: 1, HostPort: 1}}
	always := v1.ContainerRestartPolicyAlways
	pod.Spec.InitContainers = append(pod.Spec.InitContainers, v1.Container{
		Name: "sidecar", RestartPolicy: &always, Ports: []v1.ContainerPort{{ContainerPort: 2, HostPort: 2}},
	})

	got := testConfig().sandbox(pod, 3,
		SandboxInputs{CgroupParent: "/pods/x", Hostname: "own",
			DNS: DNS{Servers: []string{"10.0.0.1"}, Searches: []string{"a.b"}, Options: []string{"ndots:2"}}})
	if m := got.Metadata; m.Name != "web-node" || m.Namespace != "default" || m.Uid != "uid-1" || m.Attempt != 3 {
		t.Errorf("metadata %v", m)
	}
	wantLabels := map[string]string{
		"app": "web", "podstead.io/instance": "me", "io.kubernetes.pod.name": "web-node",
		"io.kubernetes.pod.namespace": "default", "io.kubernetes.pod.uid": "uid-1",
	}
	if diff := cmp.Diff(wantLabels, got.Labels); diff != "" {
		t.Errorf("labels (-want +got)\n%s", diff)
	}
	if pod.Labels[LabelInstance] != "other" {
		t.Error("the pod's own labels were modified")
	}
	wantAnnotations := maps.Clone(pod.Annotations)
	wantAnnotations[AnnotationCgroupParent] = "/pods/x"
	if diff := cmp.Diff(wantAnnotations, got.Annotations); diff != "" {
		t.Errorf("annotations (-want +got)\n%s", diff)
	}
	if d := got.DnsConfig; !slices.Equal(d.Servers, []string{"10.0.0.1"}) || !slices.Equal(d.Searches, []string{"a.b"}) ||
		!slices.Equal(d.Options, []string{"ndots:2"}) {
		t.Errorf("DNS %v", d)
	}
	if got := testConfig().sandbox(pod, 3, SandboxInputs{}).DnsConfig; got != nil {
		t.Errorf("DNS %v, want it left to the runtime", got)
	}
	if got.LogDirectory != "/logs/default_web-node_uid-1" || got.Hostname != "own" || got.Linux.CgroupParent != "/pods/x" {
		t.Errorf("log directory %q, hostname %q, cgroup %q", got.LogDirectory, got.Hostname, got.Linux.CgroupParent)
	}
	var ports []string
	for _, p := range got.PortMappings {
		ports = append(ports, p.String())
	}
	want := []*runtimeapi.PortMapping{
		{ContainerPort: 80, HostPort: 8080, HostIp: "127.0.0.1"},
		{Protocol: runtimeapi.Protocol_UDP, ContainerPort: 53, HostPort: 53},
		{Protocol: runtimeapi.Protocol_SCTP, ContainerPort: 9},
		{ContainerPort: 2, HostPort: 2},
	}
	if !slices.EqualFunc(got.PortMappings, want,
		func(a, b *runtimeapi.PortMapping) bool { return a.String() == b.String() }) {
		t.Errorf("ports %q", ports)
	}
	security := got.Linux.SecurityContext
	if security.Seccomp.ProfileType != runtimeapi.SecurityProfile_RuntimeDefault || security.Privileged {
		t.Errorf("security %v", security)
	}
}

func TestNamespaces(t *testing.T) {
	share := true
	const pod, node, container = runtimeapi.NamespaceMode_POD, runtimeapi.NamespaceMode_NODE,
		runtimeapi.NamespaceMode_CONTAINER
	for name, tc := range map[string]struct {
		spec              v1.PodSpec
		network, ipc, pid runtimeapi.NamespaceMode
	}{
		"default": {v1.PodSpec{}, pod, pod, container},
		"network": {v1.PodSpec{HostNetwork: true}, node, pod, container},
		"ipc":     {v1.PodSpec{HostIPC: true}, pod, node, container},
		"pid":     {v1.PodSpec{HostPID: true}, pod, pod, node},
		"share":   {v1.PodSpec{ShareProcessNamespace: &share}, pod, pod, pod},
	} {
		p := desiredPod("", nil)
		p.Spec = tc.spec
		got := testConfig().sandbox(p, 0, SandboxInputs{})
		if n := got.Linux.SecurityContext.NamespaceOptions; n.Network != tc.network || n.Ipc != tc.ipc || n.Pid != tc.pid {
			t.Errorf("%s: %v", name, n)
		}
	}
}

func TestContainerConfig(t *testing.T) {
	pod := desiredPod(v1.RestartPolicyAlways, []string{"a"})
	c := &pod.Spec.Containers[0]
	c.Command, c.Args, c.WorkingDir = []string{"/bin/$(NAME)"}, []string{"$(NAME)", "$$(NAME)", "$(NO)"}, "/work"
	c.Ports = []v1.ContainerPort{{Name: "http", ContainerPort: 80, Protocol: v1.ProtocolTCP}}
	command, args, err := expandCommand(c, []EnvVar{{"NAME", "x"}, {"B", ""}})
	if err != nil {
		t.Fatal(err)
	}
	got := testConfig().container(pod, c, containerInput{
		command: command, args: args,
		restartCount: 4,
		imageRef:     "sha256:1",
		Inputs: Inputs{
			Env: []EnvVar{{"NAME", "x"}, {"B", ""}},
			Mounts: []Mount{
				{HostPath: "/h", ContainerPath: "/c", ReadOnly: true},
				{HostPath: "/h2", ContainerPath: "/c2", Propagation: v1.MountPropagationHostToContainer},
				{HostPath: "/h3", ContainerPath: "/c3", Propagation: v1.MountPropagationBidirectional},
			},
			TerminationMessageHost: "/root/pods/uid-1/containers/a/1",
		},
	})
	if m := got.Metadata; m.Name != "a" || m.Attempt != 4 {
		t.Errorf("metadata %v", m)
	}
	if got.Image.Image != "sha256:1" || got.Image.UserSpecifiedImage != c.Image {
		t.Errorf("image %v", got.Image)
	}
	if !slices.Equal(got.Command, []string{"/bin/x"}) || !slices.Equal(got.Args, []string{"x", "$(NAME)", "$(NO)"}) ||
		got.WorkingDir != "/work" {
		t.Errorf("command %q args %q in %q", got.Command, got.Args, got.WorkingDir)
	}
	if len(got.Envs) != 2 || got.Envs[0].Key != "NAME" || string(got.Envs[0].Value) != "x" || got.Envs[1].Key != "B" {
		t.Errorf("env %v", got.Envs)
	}
	if got.LogPath != "a/4.log" {
		t.Errorf("log %q", got.LogPath)
	}
	wantMounts := []*runtimeapi.Mount{
		{HostPath: "/h", ContainerPath: "/c", Readonly: true},
		{HostPath: "/h2", ContainerPath: "/c2", Propagation: runtimeapi.MountPropagation_PROPAGATION_HOST_TO_CONTAINER},
		{HostPath: "/h3", ContainerPath: "/c3", Propagation: runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL},
		{HostPath: "/root/pods/uid-1/containers/a/1", ContainerPath: "/dev/termination-log"},
	}
	if !slices.EqualFunc(got.Mounts, wantMounts, func(a, b *runtimeapi.Mount) bool { return a.String() == b.String() }) {
		t.Errorf("mounts %v", got.Mounts)
	}
	wantLabels := map[string]string{
		"io.kubernetes.container.name": "a", "podstead.io/instance": "me", "io.kubernetes.pod.name": "web-node",
		"io.kubernetes.pod.namespace": "default", "io.kubernetes.pod.uid": "uid-1",
	}
	if diff := cmp.Diff(wantLabels, got.Labels); diff != "" {
		t.Errorf("labels (-want +got)\n%s", diff)
	}
	wantAnnotations := map[string]string{
		"io.kubernetes.container.hash":                     Hash(c),
		"io.kubernetes.container.restartCount":             "4",
		"io.kubernetes.container.terminationMessagePath":   "/dev/termination-log",
		"io.kubernetes.container.terminationMessagePolicy": "File",
		"io.kubernetes.container.ports":                    `[{"name":"http","containerPort":80,"protocol":"TCP"}]`,
		"io.kubernetes.pod.terminationGracePeriod":         "30",
		"podstead.io/container-resources":                  "{}",
		"podstead.io/termination-message-host-path":        "/root/pods/uid-1/containers/a/1",
	}
	if diff := cmp.Diff(wantAnnotations, got.Annotations); diff != "" {
		t.Errorf("annotations (-want +got)\n%s", diff)
	}
	security := got.Linux.SecurityContext
	if security.Privileged || security.Capabilities != nil || security.RunAsUser != nil || security.NoNewPrivs ||
		security.Seccomp.ProfileType != runtimeapi.SecurityProfile_Unconfined ||
		!slices.Contains(security.MaskedPaths, "/proc/kcore") || !slices.Contains(security.ReadonlyPaths, "/proc/sys") {
		t.Errorf("security %v", security)
	}
}

// The configuration that is written equals the one that is recovered.
func TestContainerConfigIsRecovered(t *testing.T) {
	pod := desiredPod(v1.RestartPolicyAlways, []string{"a"})
	made := testConfig().container(pod, &pod.Spec.Containers[0], containerInput{
		restartCount: 2, Inputs: Inputs{TerminationMessageHost: "/f"},
	})
	got := observedContainer(&runtimeapi.Container{
		Metadata: made.Metadata, Labels: made.Labels, Annotations: made.Annotations,
	}, true)
	if got.Name != "a" || got.RestartCount != 2 || got.Hash != Hash(&pod.Spec.Containers[0]) ||
		got.TerminationMessageHost != "/f" || got.TerminationMessagePath != "/dev/termination-log" ||
		got.TerminationGracePeriod == nil || *got.TerminationGracePeriod != 30 ||
		got.TerminationPolicy != v1.TerminationMessageReadFile {
		t.Errorf("got %+v", got)
	}
}

func TestHostMaskedPaths(t *testing.T) {
	sysfs := t.TempDir()
	for _, dir := range []string{"cpu0/thermal_throttle", "cpu11/thermal_throttle", "cpu1", "cpufreq/thermal_throttle"} {
		if err := os.MkdirAll(filepath.Join(sysfs, "devices/system/cpu", dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	got := hostMaskedPaths(sysfs)
	want := append(slices.Clone(maskedPaths),
		filepath.Join(sysfs, "devices/system/cpu/cpu0/thermal_throttle"),
		filepath.Join(sysfs, "devices/system/cpu/cpu11/thermal_throttle"))
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// requirements parses "cpu memory" for requests and limits; - means absent.
func requirements(request, limit string) v1.ResourceRequirements {
	list := func(text string) v1.ResourceList {
		names := []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory}
		l := v1.ResourceList{}
		for i, value := range strings.Fields(text) {
			if value != "-" {
				l[names[i]] = resource.MustParse(value)
			}
		}
		return l
	}
	return v1.ResourceRequirements{Requests: list(request), Limits: list(limit)}
}

func TestContainerResources(t *testing.T) {
	for _, tc := range []struct {
		request, limit             string
		shares, quota, memory, adj int64
	}{
		{"", "", 2, 0, 0, 1000},
		{"100m -", "", 102, 0, 0, 999},
		{"- 4Gi", "", 2, 0, 0, 750},
		{"- 16Gi", "", 2, 0, 0, 3},
		{"- 1", "", 2, 0, 0, 999},
		{"250m 1Gi", "500m 2Gi", 256, 50_000, 2 << 30, 938},
		{"1 1Gi", "1 1Gi", 1024, 100_000, 1 << 30, -997},
		{"", "2 -", 2048, 200_000, 0, 999},
		{"0 -", "2 -", 2, 200_000, 0, 999},
		{"1m -", "1m -", 2, 1000, 0, 999},
		{"1000 -", "", 262144, 0, 0, 999},
	} {
		pod := desiredPod("", []string{"a"})
		c := &pod.Spec.Containers[0]
		c.Resources = requirements(tc.request, tc.limit)
		got := testConfig().containerResources(pod, c, nil)
		if got.CpuShares != tc.shares || got.CpuQuota != tc.quota || got.CpuPeriod != 100_000 ||
			got.MemoryLimitInBytes != tc.memory || got.OomScoreAdj != tc.adj {
			t.Errorf("requests %q limits %q: got %v, want %+v", tc.request, tc.limit, got, tc)
		}
	}
}

// assignedTo gives each pod's container "own" exclusive CPUs and memory of NUMA nodes, and the others the rest.
type assignedTo types.UID

func (a assignedTo) CPUs(uid types.UID, container string) (string, bool) {
	if uid == types.UID(a) && container == "own" {
		return "1-2", true
	}
	return "0,3", false
}

func (a assignedTo) NUMANodes(uid types.UID, container string) string {
	if uid == types.UID(a) && container == "own" {
		return "0,2"
	}
	return ""
}

func (assignedTo) Created(string, string) {}

// A container with exclusive CPUs has no quota; the others run on the shared ones. One with memory of NUMA nodes
// is created with them. A resize keeps all that.
func TestAssignedOfContainers(t *testing.T) {
	pod := desiredPod("", []string{"own", "other"})
	g, assigned := testConfig(), assignedTo(pod.UID)
	for i, want := range []*runtimeapi.LinuxContainerResources{{CpusetCpus: "1-2", CpuQuota: 0, CpusetMems: "0,2"},
		{CpusetCpus: "0,3", CpuQuota: 200_000}} {
		c := &pod.Spec.Containers[i]
		c.Resources = requirements("2 1Gi", "2 1Gi")
		if got := g.containerResources(pod, c, assigned); got.CpusetCpus != want.CpusetCpus ||
			got.CpuQuota != want.CpuQuota || got.CpusetMems != want.CpusetMems || got.CpuShares != 2048 {
			t.Errorf("%s: %v, want %v", c.Name, got, want)
		}
		if want.CpuQuota == 0 {
			want.CpuQuota = -1 // 0 would leave it unchanged
		}
		if got := g.resizedResources(pod, c, Resize{}, assigned); got.CpusetCpus != want.CpusetCpus ||
			got.CpuQuota != want.CpuQuota || got.CpusetMems != want.CpusetMems {
			t.Errorf("%s after a resize: %v, want %v", c.Name, got, want)
		}
	}
}

func TestOOMScoreAdj(t *testing.T) {
	pod := desiredPod("", []string{"a"})
	if got := oomScoreAdj(pod, &pod.Spec.Containers[0], 0); got != 1000 {
		t.Errorf("BestEffort: %d", got)
	}
	pod.Spec.Containers[0].Resources = requirements("- 1Gi", "")
	if got := oomScoreAdj(pod, &pod.Spec.Containers[0], 0); got != 999 {
		t.Errorf("Burstable on a host of unknown memory: %d", got)
	}
	pod.Spec.PriorityClassName = "system-node-critical"
	if got := oomScoreAdj(pod, &pod.Spec.Containers[0], 1<<30); got != -997 {
		t.Errorf("node critical: %d", got)
	}
}

func TestPodResources(t *testing.T) {
	pod := desiredPod("", []string{"a", "b"}, "i")
	pod.Spec.Containers[0].Resources = requirements("1 -", "1 1Gi")
	pod.Spec.Containers[1].Resources = requirements("500m -", "1 1Gi")
	pod.Spec.InitContainers[0].Resources = requirements("250m -", "3 1Gi")
	got := testConfig().podResources(pod)
	if got.CpuShares != 1536 || got.CpuQuota != 300_000 || got.MemoryLimitInBytes != 2<<30 {
		t.Errorf("got %v", got)
	}
}

func TestConfigsShareNothingWithThePod(t *testing.T) {
	pod := desiredPod("", []string{"a"})
	pod.Annotations = map[string]string{"a": "b"}
	before := maps.Clone(pod.Annotations)
	testConfig().sandbox(pod, 0, SandboxInputs{}).Annotations["c"] = "d"
	if !maps.Equal(pod.Annotations, before) {
		t.Error("modifying the config modified the pod")
	}
}

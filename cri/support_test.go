package cri

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// supportCases has, for each row of fieldSupports and in its order, a pod that
// uses the field, and runtimes with and without support.
var supportCases = []struct {
	ask     func(*v1.Pod)
	path    string
	with    []Capabilities
	without []Capabilities
}{
	{
		ask: func(p *v1.Pod) {
			signal := v1.SIGUSR1
			p.Spec.Containers[1].Lifecycle = &v1.Lifecycle{StopSignal: &signal}
		},
		path: "spec.containers[1].lifecycle.stopSignal",
		with: []Capabilities{
			runtimeOf("containerd", "v2.3.4"), runtimeOf("containerd", "2.4.2+unknown"), runtimeOf("containerd", "v3.0.0-rc.1"),
			runtimeOf("cri-o", "1.33.0"),
		},
		without: []Capabilities{
			runtimeOf("containerd", "1.6.20~ds1"), runtimeOf("containerd", "v2.2.9"), runtimeOf("containerd", "<unknown>"),
			runtimeOf("cri-o", "1.32.9"), runtimeOf("docker", "28.0.0"), runtimeOf("", ""),
		},
	},
	{
		ask:  func(p *v1.Pod) { imageVolume(p, "") },
		path: "spec.volumes[1].image",
		with: []Capabilities{runtimeOf("containerd", "v2.1.0"), runtimeOf("cri-o", "1.31.0")},
		without: []Capabilities{runtimeOf("containerd", "1.6.20~ds1"), runtimeOf("containerd", "v2.0.5"),
			runtimeOf("cri-o", "1.30.1")},
	},
	{
		ask:     func(p *v1.Pod) { imageVolume(p, "part") },
		path:    "spec.containers[1].volumeMounts[0].subPath",
		with:    []Capabilities{runtimeOf("containerd", "v2.2.0"), runtimeOf("cri-o", "1.33.0")},
		without: []Capabilities{runtimeOf("containerd", "v2.1.7"), runtimeOf("cri-o", "1.32.0")},
	},
	{
		ask: func(p *v1.Pod) {
			mode := v1.RecursiveReadOnlyEnabled
			p.Spec.InitContainers[0].VolumeMounts = []v1.VolumeMount{
				{Name: "v", MountPath: "/v", ReadOnly: true, RecursiveReadOnly: &mode}}
		},
		path:    "spec.initContainers[0].volumeMounts[0].recursiveReadOnly",
		with:    []Capabilities{withRecursiveReadOnly(runtimeOf("other", "1"))},
		without: []Capabilities{runtimeOf("containerd", "v2.4.2")},
	},
	{
		ask: func(p *v1.Pod) {
			policy := v1.SupplementalGroupsPolicyStrict
			p.Spec.SecurityContext = &v1.PodSecurityContext{SupplementalGroupsPolicy: &policy}
		},
		path: "spec.securityContext.supplementalGroupsPolicy",
		with: []Capabilities{
			runtimeOf("containerd", "2.0.0"), runtimeOf("cri-o", "1.32.0"),
			{Version: Version{Name: "other"}, Features: &runtimeapi.RuntimeFeatures{SupplementalGroupsPolicy: true}},
		},
		without: []Capabilities{
			runtimeOf("containerd", "1.7.29"), runtimeOf("cri-o", "1.31.9"),
			{Version: Version{Name: "other"}, Features: &runtimeapi.RuntimeFeatures{}},
		},
	},
	{
		ask: func(p *v1.Pod) {
			no := false
			p.Spec.HostUsers = &no
		},
		path: "spec.hostUsers",
		with: []Capabilities{{Handlers: map[string]*runtimeapi.RuntimeHandlerFeatures{"": {UserNamespaces: true}}}},
		without: []Capabilities{
			runtimeOf("containerd", "1.6.20~ds1"), runtimeOf("containerd", "v9.0.0"),
			{Version: Version{Name: "containerd", Version: "v2.4.2"},
				Handlers: map[string]*runtimeapi.RuntimeHandlerFeatures{"": {RecursiveReadOnlyMounts: true},
					"new": {UserNamespaces: true}}},
		},
	},
}

// imageVolume makes a pod mount an image.
func imageVolume(p *v1.Pod, subPath string) {
	p.Spec.Volumes = []v1.Volume{{},
		{Name: "i", VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: "x"}}}}
	p.Spec.Containers[1].VolumeMounts = []v1.VolumeMount{{Name: "i", MountPath: "/i", SubPath: subPath}}
}

// withRecursiveReadOnly returns the capabilities with the feature reported.
func withRecursiveReadOnly(k Capabilities) Capabilities {
	k.Handlers = map[string]*runtimeapi.RuntimeHandlerFeatures{"": {RecursiveReadOnlyMounts: true}}
	return k
}

func runtimeOf(name, version string) Capabilities {
	return Capabilities{Version: Version{Name: name, Version: version}}
}

func TestSupport(t *testing.T) {
	if len(supportCases) != len(fieldSupports) {
		t.Fatalf("%d cases for %d rows", len(supportCases), len(fieldSupports))
	}
	for i, tc := range supportCases {
		pod := desiredPod(v1.RestartPolicyAlways, []string{"a", "b"}, "i")
		if paths := fieldSupports[i].requestedAt(pod); len(paths) > 0 {
			t.Errorf("%s: a plain pod uses %q", tc.path, paths)
		}
		tc.ask(pod)
		if !dependsOnRuntime(pod) {
			t.Errorf("%s: the pod does not use it", tc.path)
		}
		for _, k := range tc.with {
			if err := k.Unsupported(pod, ""); err != nil {
				t.Errorf("%s %s: %v", k.Name, k.Version.Version, err)
			}
		}
		for _, k := range tc.without {
			err := k.Unsupported(pod, "")
			if err == nil || !strings.Contains(err.Error(), tc.path) ||
				!strings.Contains(err.Error(), k.Name+" "+k.Version.Version) || !strings.Contains(err.Error(), "it requires ") {
				t.Errorf("%s %s: %v, want the field, the runtime and the requirement", k.Name, k.Version.Version, err)
			}
		}
	}
}

// A feature that the runtime reports is supported whatever the version.
func TestSupportByFeature(t *testing.T) {
	f := fieldSupport{
		requestedAt: podField("securityContext.supplementalGroupsPolicy", func(*v1.PodSpec) bool { return true }),
		feature:     func(k Capabilities) bool { return k.Features.GetSupplementalGroupsPolicy() },
	}
	before := fieldSupports
	fieldSupports = []fieldSupport{f}
	defer func() { fieldSupports = before }()
	pod := desiredPod(v1.RestartPolicyAlways, []string{"a"})
	k := runtimeOf("other", "1")
	if err := k.Unsupported(pod, ""); err == nil ||
		!strings.Contains(err.Error(), "spec.securityContext.supplementalGroupsPolicy") {
		t.Errorf("got %v", err)
	}
	k.Features = &runtimeapi.RuntimeFeatures{SupplementalGroupsPolicy: true}
	if err := k.Unsupported(pod, ""); err != nil {
		t.Errorf("got %v", err)
	}
}

// The features of one handler say nothing about another.
func TestSupportByHandler(t *testing.T) {
	pod := desiredPod(v1.RestartPolicyAlways, []string{"a"})
	no := false
	pod.Spec.HostUsers = &no
	k := runtimeOf("containerd", "v2.4.2")
	k.Handlers = map[string]*runtimeapi.RuntimeHandlerFeatures{"": {}, "new": {UserNamespaces: true}}
	for handler, want := range map[string]bool{"": false, "old": false, "new": true} {
		if err := k.Unsupported(pod, handler); (err == nil) != want {
			t.Errorf("handler %q: %v", handler, err)
		}
	}
}

// Every signal of the API has a number in CRI; otherwise an update of CRI's
// names would turn all of them into the image's default.
func TestStopSignals(t *testing.T) {
	for _, name := range []v1.Signal{v1.SIGTERM, v1.SIGINT, v1.SIGUSR1, v1.SIGRTMIN, v1.SIGRTMINPLUS3, v1.SIGRTMAXMINUS14,
		v1.SIGRTMAX, v1.SIGKILL, v1.SIGCLD} {
		c := &v1.Container{Lifecycle: &v1.Lifecycle{StopSignal: &name}}
		if stopSignal(c) == runtimeapi.Signal_RUNTIME_DEFAULT {
			t.Errorf("%s has no number", name)
		}
		if got := apiSignal(stopSignal(c)); got != name {
			t.Errorf("%s is read back as %s", name, got)
		}
	}
	if got := stopSignal(&v1.Container{}); got != runtimeapi.Signal_RUNTIME_DEFAULT {
		t.Errorf("without one: %s", got)
	}
	for _, unknown := range []runtimeapi.Signal{runtimeapi.Signal_RUNTIME_DEFAULT, 12345} {
		if got := apiSignal(unknown); got != "" {
			t.Errorf("%d is reported as %q", unknown, got)
		}
	}
}

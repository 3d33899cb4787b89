package oracle

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	upstream "k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/capabilities"

	"github.com/podstead/podstead/manifest/validation"
)

// TestEphemeralContainers compares what is accepted as ephemeral containers of a running pod, and
// the fields that are not, with an update of pods/ephemeralcontainers at an API server.
func TestEphemeralContainers(t *testing.T) {
	capabilities.Setup(true, 0)
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "u1", ResourceVersion: "1"},
		Spec: v1.PodSpec{
			InitContainers: []v1.Container{{Name: "setup", Image: "busybox"}},
			Containers: []v1.Container{
				{Name: "web", Image: "nginx", VolumeMounts: []v1.VolumeMount{{Name: "data", MountPath: "/data"}}}},
			Volumes: []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}},
			EphemeralContainers: []v1.EphemeralContainer{
				{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "first", Image: "busybox"}},
			},
		},
	}
	// A runtime refuses a privileged container in the sandbox of a pod that has none, and so does podstead.
	always, privileged := v1.ContainerRestartPolicyAlways, true
	pod.Spec.Containers[0].SecurityContext = &v1.SecurityContext{Privileged: &privileged}
	pod = upstreamDefaults(t, pod)
	bidirectional := v1.MountPropagationBidirectional
	type container = v1.EphemeralContainer
	changes := map[string]func(*container){
		"valid":             func(*container) {},
		"target":            func(c *container) { c.TargetContainerName = "web" },
		"init target":       func(c *container) { c.TargetContainerName = "setup" },
		"unknown target":    func(c *container) { c.TargetContainerName = "db" },
		"ephemeral target":  func(c *container) { c.TargetContainerName = "first" },
		"no name":           func(c *container) { c.Name = "" },
		"bad name":          func(c *container) { c.Name = "Bad_Name" },
		"name of container": func(c *container) { c.Name = "web" },
		"no image":          func(c *container) { c.Image = "" },
		"spaces":            func(c *container) { c.Image = " busybox" },
		"policy":            func(c *container) { c.ImagePullPolicy = "Sometimes" },
		"ports":             func(c *container) { c.Ports = []v1.ContainerPort{{ContainerPort: 80, Protocol: "TCP"}} },
		"liveness":          func(c *container) { c.LivenessProbe = &v1.Probe{} },
		"readiness":         func(c *container) { c.ReadinessProbe = &v1.Probe{} },
		"startup":           func(c *container) { c.StartupProbe = &v1.Probe{} },
		"hook":              func(c *container) { c.Lifecycle = &v1.Lifecycle{} },
		"limits":            func(c *container) { c.Resources.Limits = v1.ResourceList{"cpu": resource.MustParse("1")} },
		"restarts":          func(c *container) { c.RestartPolicy = &always },
		"mount":             func(c *container) { c.VolumeMounts = []v1.VolumeMount{{Name: "data", MountPath: "/d"}} },
		"unknown mount":     func(c *container) { c.VolumeMounts = []v1.VolumeMount{{Name: "x", MountPath: "/d"}} },
		"sub path": func(c *container) {
			c.VolumeMounts = []v1.VolumeMount{
				{Name: "data", MountPath: "/d", SubPath: "x"}}
		},
		"sub path expr": func(c *container) {
			c.VolumeMounts = []v1.VolumeMount{{Name: "data", MountPath: "/d", SubPathExpr: "$(X)"}}
		},
		"bidirectional": func(c *container) {
			c.VolumeMounts = []v1.VolumeMount{{Name: "data", MountPath: "/d", MountPropagation: &bidirectional}}
		},
		"environment": func(c *container) { c.Env = []v1.EnvVar{{Name: "A=B", Value: "x"}} },
		"privileged":  func(c *container) { c.SecurityContext = &v1.SecurityContext{Privileged: &privileged} },
		"terminal":    func(c *container) { c.Stdin, c.TTY = true, true },
	}
	lists := map[string][]container{
		"removed": {}, "same": pod.Spec.EphemeralContainers,
		"changed": {{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "first", Image: "alpine"}}},
	}
	for name, change := range changes {
		c := container{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debugger", Image: "busybox"}}
		change(&c)
		lists[name] = []container{pod.Spec.EphemeralContainers[0], c}
	}
	accepted := 0
	for name, list := range lists {
		changed := pod.DeepCopy()
		changed.Spec.EphemeralContainers = list
		theirs := upstream.ValidatePodEphemeralContainersUpdate(upstreamPod(t, changed), upstreamPod(t, pod),
			podutil.GetValidationOptionsFromPodSpecAndMeta(&upstreamPod(t, changed).Spec, nil, nil, nil))
		own := slices.Clone(list)
		validation.SetEphemeralDefaults(own)
		var ours, want []string
		for _, f := range validation.CheckEphemeral(pod, own) {
			ours = append(ours, exactly(f.Path))
		}
		for _, err := range theirs {
			want = append(want, exactly(err.Field))
		}
		slices.Sort(ours)
		slices.Sort(want)
		if ours, want = slices.Compact(ours), slices.Compact(want); !slices.Equal(ours, want) {
			t.Errorf("%s: podstead %q, Kubernetes %q:\n%v", name, ours, want, theirs)
		}
		if len(theirs) == 0 {
			accepted++
		}
	}
	if accepted < 6 || accepted > len(lists)-10 {
		t.Errorf("%d of %d lists were accepted", accepted, len(lists))
	}
}

// exactly returns the path of a field from the container on. The API server leaves some indices out.
func exactly(path string) string {
	path = strings.Replace(path, "volumeMounts[0].mountPropagation", "volumeMounts.mountPropagation", 1)
	if path == "spec.ephemeralContainers[0]" {
		return "ephemeralContainers"
	}
	path = strings.TrimPrefix(path, "spec.")
	for i := range 3 {
		path = strings.TrimPrefix(path, fmt.Sprintf("ephemeralContainers[%d].", i))
	}
	return path
}

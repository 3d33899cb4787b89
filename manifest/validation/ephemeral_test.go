package validation

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestCheckEphemeral(t *testing.T) {
	const manifest = `
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  initContainers: [{name: setup, image: busybox}]
  containers:
    - {name: web, image: nginx, volumeMounts: [{name: data, mountPath: /data}]}
  volumes: [{name: data, emptyDir: {}}]
`
	pod := defaultedPod(t, manifest)
	pod.Spec.EphemeralContainers = []v1.EphemeralContainer{
		{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "first", Image: "busybox"}}}
	SetEphemeralDefaults(pod.Spec.EphemeralContainers)
	type container = v1.EphemeralContainer
	for _, tc := range []struct {
		name string
		// change changes the container that is added; nil replaces the list with desired.
		change  func(*container)
		desired []container
		// want are parts of the faults, each of which is named; none accepts.
		want []string
	}{
		{name: "valid", change: func(c *container) { c.TargetContainerName = "web" }},
		{name: "with a volume",
			change: func(c *container) { c.VolumeMounts = []v1.VolumeMount{{Name: "data", MountPath: "/d"}} }},
		{name: "of an init container", change: func(c *container) { c.TargetContainerName = "setup" }},
		{name: "no image", change: func(c *container) { c.Image = "" },
			want: []string{"spec.ephemeralContainers[1].image is missing"}},
		{name: "no name", change: func(c *container) { c.Name = "" },
			want: []string{"spec.ephemeralContainers[1].name is missing"}},
		{name: "name of a container", change: func(c *container) { c.Name = "web" },
			want: []string{`[1].name "web" is a duplicate`}},
		{name: "name of another", change: func(c *container) { c.Name = "first"; c.Image = "alpine" },
			want: []string{`[1].name "first" is a duplicate`}},
		{name: "unknown target", change: func(c *container) { c.TargetContainerName = "db" },
			want: []string{`[1].targetContainerName "db" is not declared`}},
		{name: "ephemeral target", change: func(c *container) { c.TargetContainerName = "first" },
			want: []string{`[1].targetContainerName "first" is not declared`}},
		{name: "ports", change: func(c *container) { c.Ports = []v1.ContainerPort{{ContainerPort: 99999}} },
			want: []string{"[1].ports an ephemeral container cannot have it"}},
		{name: "probe", change: func(c *container) { c.LivenessProbe = &v1.Probe{} },
			want: []string{"[1].livenessProbe an ephemeral"}},
		{name: "hook", change: func(c *container) { c.Lifecycle = &v1.Lifecycle{} },
			want: []string{"[1].lifecycle an ephemeral"}},
		{name: "resources",
			change: func(c *container) { c.Resources.Limits = v1.ResourceList{"memory": resource.MustParse("1Gi")} },
			want:   []string{"[1].resources an ephemeral"}},
		{name: "restarts",
			change: func(c *container) { always := v1.ContainerRestartPolicyAlways; c.RestartPolicy = &always },
			want:   []string{"[1].restartPolicy an ephemeral"}},
		{name: "sub path", change: func(c *container) {
			c.VolumeMounts = []v1.VolumeMount{{Name: "data", MountPath: "/d", SubPath: "x"}}
		}, want: []string{"[1].volumeMounts[0].subPath an ephemeral"}},
		{name: "unknown volume",
			change: func(c *container) { c.VolumeMounts = []v1.VolumeMount{{Name: "x", MountPath: "/d"}} },
			want:   []string{`volumeMounts[0].name "x" is not declared`}},
		{name: "unsupported", change: func(c *container) {
			name := "x"
			c.SecurityContext = &v1.SecurityContext{Capabilities: &v1.Capabilities{Add: []v1.Capability{"CAP_NO"}},
				WindowsOptions: &v1.WindowsSecurityContextOptions{RunAsUserName: &name}}
		}, want: []string{"capabilities.add[0]"}},
		{name: "privileged", change: func(c *container) {
			yes := true
			c.SecurityContext = &v1.SecurityContext{Privileged: &yes}
		}, want: []string{"[1].securityContext.privileged the sandbox of the pod was created without privileges"}},
		{name: "removed", desired: []container{},
			want: []string{"spec.ephemeralContainers ephemeral container first cannot be removed"}},
		{name: "changed",
			desired: []container{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "first", Image: "alpine"}}},
			want:    []string{"[0] ephemeral container first cannot be changed"}},
	} {
		desired := tc.desired
		if tc.change != nil {
			c := container{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debugger", Image: "busybox"}}
			tc.change(&c)
			desired = []container{pod.Spec.EphemeralContainers[0], c}
		}
		SetEphemeralDefaults(desired)
		var got []string
		for _, f := range CheckEphemeral(pod, desired) {
			got = append(got, f.Path+" "+f.Problem+"; "+f.Remedy)
		}
		if len(got) < len(tc.want) || len(tc.want) == 0 && len(got) > 0 || tc.name != "name of another" &&
			len(got) > len(tc.want) {
			t.Errorf("%s: %d faults %q, want %q", tc.name, len(got), got, tc.want)
		}
		for _, want := range tc.want {
			if !strings.Contains(strings.Join(got, "\n"), want) {
				t.Errorf("%s: no %q in %q", tc.name, want, got)
			}
		}
	}
}

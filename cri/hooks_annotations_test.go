package cri

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
)

// The data that terminating a container needs is recovered from its
// annotations.
func TestHookAnnotations(t *testing.T) {
	pod := desiredPod(v1.RestartPolicyAlways, []string{"a"}, "i", "s")
	always := v1.ContainerRestartPolicyAlways
	pod.Spec.InitContainers[1].RestartPolicy = &always
	pod.Spec.Containers[0].Lifecycle = &v1.Lifecycle{
		PostStart: &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 1}},
		PreStop:   &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"sh", "-c", `echo "bye"`}}},
	}
	pod.Spec.Containers[0].Ports = []v1.ContainerPort{{Name: "web", ContainerPort: 80, Protocol: v1.ProtocolTCP}}
	for _, c := range []struct {
		spec *v1.Container
		want Container
	}{
		{&pod.Spec.Containers[0], Container{PreStop: pod.Spec.Containers[0].Lifecycle.PreStop,
			Ports: pod.Spec.Containers[0].Ports}},
		{&pod.Spec.InitContainers[0], Container{}},
		{&pod.Spec.InitContainers[1], Container{Sidecar: 2}},
	} {
		var got Container
		recoverHooks(&got, containerAnnotations(pod, c.spec, containerInput{}))
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", c.spec.Name, diff)
		}
	}
	var broken Container
	recoverHooks(&broken, map[string]string{AnnotationPreStop: "{", AnnotationSidecar: "-1", annotationPorts: "x"})
	if broken.PreStop != nil || broken.Sidecar != 0 {
		t.Errorf("got %+v", broken)
	}
}

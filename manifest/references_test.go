package manifest

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

func TestReferences(t *testing.T) {
	yes := true
	pod := referencingPod()
	name := func(name string) v1.LocalObjectReference { return v1.LocalObjectReference{Name: name} }
	kata := "kata"
	pod.Spec.RuntimeClassName, pod.Spec.PriorityClassName, pod.Spec.ImagePullSecrets = &kata, "high",
		[]v1.LocalObjectReference{name("pull")}
	pod.Spec.InitContainers = []v1.Container{{
		Name:    "init",
		EnvFrom: []v1.EnvFromSource{{SecretRef: &v1.SecretEnvSource{LocalObjectReference: name("from"), Optional: &yes}}},
		Env: []v1.EnvVar{
			{ValueFrom: &v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{LocalObjectReference: name("key")}}}},
	}}
	pod.Spec.Volumes = []v1.Volume{
		{Name: "c",
			VolumeSource: v1.VolumeSource{
				ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: name("files"), Optional: &yes}}},
		{Name: "s", VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "certs"}}},
		{Name: "d",
			VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}},
		{Name: "p", VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
			{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: name("cm")}},
			{Secret: &v1.SecretProjection{LocalObjectReference: name("projected")}},
		}}}},
	}
	pod.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "p"}, {Name: "d"}}
	for what, c := range map[string]struct {
		got  []ObjectRef
		want string
	}{
		"all": {References(pod), "Secret default/from, Secret default/key, ConfigMap default/cm, ConfigMap default/files, " +
			"Secret default/certs, " +
			"PersistentVolumeClaim default/data, Secret default/projected, Secret default/pull, PriorityClass high, " +
			"RuntimeClass kata"},
		"required": {RequiredReferences(pod), "Secret default/key, ConfigMap default/cm, Secret default/certs, " +
			"PersistentVolumeClaim default/data, Secret default/projected"},
		"app":  {ContainerReferences(pod, &pod.Spec.Containers[0]), "ConfigMap default/cm, Secret default/projected"},
		"init": {ContainerReferences(pod, &pod.Spec.InitContainers[0]), "Secret default/from, Secret default/key"},
	} {
		var names []string
		for _, ref := range c.got {
			names = append(names, ref.String())
		}
		if got := strings.Join(names, ", "); got != c.want {
			t.Errorf("%s: %s, want %s", what, got, c.want)
		}
	}
}

// A pod of a few hundred kilobytes may have 20,000 references: time that grew with their
// square would be a second, for each call.
func BenchmarkReferences(b *testing.B) {
	pod, yes := referencingPod(), true
	for n := range 20_000 {
		pod.Spec.Containers[0].EnvFrom = append(pod.Spec.Containers[0].EnvFrom, v1.EnvFromSource{
			ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: fmt.Sprint(n)},
				Optional: &yes}})
	}
	for b.Loop() {
		References(pod)
	}
}

func referencingPod() *v1.Pod {
	pod := &v1.Pod{}
	pod.Name, pod.Namespace = "web", "default"
	pod.Spec.Containers = []v1.Container{{Name: "main", Env: []v1.EnvVar{{Name: "A", ValueFrom: &v1.EnvVarSource{
		ConfigMapKeyRef: &v1.ConfigMapKeySelector{LocalObjectReference: v1.LocalObjectReference{Name: "cm"}, Key: "a"}}}}}}
	return pod
}

package manifest

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// A container gets variables and files of a subPath once; other volumes are updated.
func TestFixedReferences(t *testing.T) {
	pod := referencingPod()
	volume := func(name string) v1.Volume {
		return v1.Volume{Name: name,
			VolumeSource: v1.VolumeSource{
				ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: name}}}}
	}
	pod.Spec.Volumes = []v1.Volume{volume("whole"), volume("file"), volume("unused")}
	c := &pod.Spec.Containers[0]
	c.VolumeMounts = []v1.VolumeMount{{Name: "whole"}, {Name: "file", SubPath: "a"}}
	if got := fmt.Sprint(FixedReferences(pod, c)); got != "[ConfigMap default/cm ConfigMap default/file]" {
		t.Error(got)
	}
}

func TestRequiredKeys(t *testing.T) {
	pod, yes := referencingPod(), true
	c := &pod.Spec.Containers[0]
	c.Env = append(c.Env, c.Env[0], v1.EnvVar{Name: "B", ValueFrom: &v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{
		LocalObjectReference: v1.LocalObjectReference{Name: "s"}, Key: "b", Optional: &yes}}})
	pod.Spec.Volumes = []v1.Volume{{Name: "v",
		VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "s", Items: []v1.KeyToPath{{Key: "tls"}}}}},
		{Name: "p", VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{{
			ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: v1.LocalObjectReference{Name: "cm"},
				Items: []v1.KeyToPath{{Key: "p"}}}}}}}}}
	want := "[key a of ConfigMap default/cm key tls of Secret default/s key p of ConfigMap default/cm]"
	if got := fmt.Sprint(RequiredKeys(pod)); got != want {
		t.Error(got)
	}
}

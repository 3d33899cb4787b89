package pod

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestShareClaim(t *testing.T) {
	pod := func(namespace, name string, volumes ...v1.Volume) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: v1.PodSpec{Volumes: volumes}}
	}
	named := func(claim string) v1.Volume {
		return v1.Volume{Name: "data",
			VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}
	}
	ephemeral := v1.Volume{Name: "data", VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}}
	none := v1.Volume{Name: "data", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}
	web := pod("shop", "web", none, named("files"), ephemeral)
	for name, c := range map[string]struct {
		other *v1.Pod
		want  bool
	}{
		"the same claim":                      {pod("shop", "a", named("files")), true},
		"another claim":                       {pod("shop", "a", named("other")), false},
		"another namespace":                   {pod("apps", "a", named("files")), false},
		"no claim":                            {pod("shop", "a", none), false},
		"the claim of an ephemeral volume":    {pod("shop", "a", named("web-data")), true},
		"the ephemeral volume of another pod": {pod("shop", "a", ephemeral), false},
	} {
		if got := ShareClaim(web, c.other); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
		if got := ShareClaim(c.other, web); got != c.want {
			t.Errorf("%s, the other way: %v", name, got)
		}
	}
}

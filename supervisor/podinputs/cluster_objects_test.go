package podinputs

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/supervisor/volume"
)

// Only the claims of pods of the cluster are its claims. A pod whose objects are not requested waits for that, and not
// for a response of the API server.
func TestClaimsOfAPIPods(t *testing.T) {
	bound := &testClusterObjects{testObjects: newTestObjects(),
		held: map[types.UID]string{"u2": "refers to too many objects"}}
	pod := func(uid types.UID, source podinfo.Source) *v1.Pod {
		p := testPod("web")
		p.UID, p.Annotations[podinfo.AnnotationSource] = uid, string(source)
		p.Spec.Volumes = []v1.Volume{{Name: "data",
			VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: string(uid)}}}}
		p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "data", MountPath: "/data"}}
		return p
	}
	pods := []*v1.Pod{pod("static", podinfo.SourceFile), pod("u1", podinfo.SourceAPI), pod("u2", podinfo.SourceAPI)}
	got := New(Config{Volumes: &volume.Volumes{Root: t.TempDir()}, ClusterObjects: bound}).ClusterClaims(pods)
	want := []volume.ClaimWait{{Pod: "u1", Reason: "is not bound"}, {Pod: "u2", Reason: "refers to too many objects"}}
	if len(got) != len(want) {
		t.Fatalf("listed %+v", got)
	}
	for i, w := range want {
		if got[i].Name != string(w.Pod) || len(got[i].Waiting) != 1 || got[i].Waiting[0] != w {
			t.Errorf("listed %+v, want %+v", got[i], w)
		}
	}
	if got := New(Config{}).ClusterClaims(pods); got != nil {
		t.Errorf("without a cluster: %+v", got)
	}
}

package daemon

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/httpapi/metrics"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/internal/usage"
	"github.com/podstead/podstead/manifest"
)

// The claims of a cluster's pods are in the metrics, each once, and not those of static pods, which the node binds.
func TestMetricsOfClusterClaims(t *testing.T) {
	pod := func(uid types.UID, source podinfo.Source, claims ...string) *v1.Pod {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: string(uid), UID: uid, Annotations: map[string]string{podinfo.AnnotationSource: string(source)}}}
		for _, claim := range claims {
			p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: claim, VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}})
		}
		return p
	}
	pods := []*v1.Pod{pod("one", podinfo.SourceAPI, "data", "declared", "unused"), pod("two", podinfo.SourceAPI, "data"), pod("static", podinfo.SourceFile, "local")}
	path := func(uid types.UID, volume string) string {
		if volume == "unused" {
			return ""
		}
		return "/" + volume
	}
	volumes := usage.ClaimVolumes{"/data": {}, "/declared": {}, "/local": {}}
	volumes["/data"].Capacity = 7
	got := addClusterClaims([]metrics.Claim{{Namespace: "shop", Name: "declared"}}, pods, path, volumes)
	if len(got) != 2 || got[1].Name != "data" || got[1].Namespace != "shop" || got[1].Capacity != 7 {
		t.Errorf("%+v", got)
	}
}

// A source that was read in full is ready also if one of its manifests is invalid and has no
// last good revision.
func TestManifestMetricsOfIncompleteSource(t *testing.T) {
	fault := manifest.Fault{Unit: "/m/x.yaml", Problem: "is not valid"}
	views := []manifest.SourceView{
		{Source: manifest.SourceFile, Incomplete: []string{"/m/x.yaml"}, Units: []manifest.UnitView{{Name: "/m/x.yaml", Faults: manifest.Faults{fault}}}},
		{Source: manifest.SourceHTTP, Fault: &fault},
	}
	got := manifestsOf(views)
	if !got[0].Ready || got[0].Incomplete != 1 || got[0].Faults != 1 {
		t.Errorf("incomplete source: %+v", got[0])
	}
	if got[1].Ready || got[1].Incomplete != 0 {
		t.Errorf("source that was not read: %+v", got[1])
	}
}

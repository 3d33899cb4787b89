package podinputs

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/supervisor/volume"
)

func TestVolumeGroups(t *testing.T) {
	group := func(gid int64) volume.Mounted { return volume.Mounted{Group: &gid} }
	fsGroup := int64(4)
	pod := testPod("web")
	volumes := map[string]volume.Mounted{"a": group(9), "b": group(3), "c": group(4), "d": group(5), "e": group(5),
		"f": {}}
	if got := volumeGroups(pod, volumes); !slices.Equal(got, []int64{3, 4, 5, 9}) {
		t.Errorf("got %v", got)
	}
	pod.Spec.SecurityContext = &v1.PodSecurityContext{SupplementalGroups: []int64{3}, FSGroup: &fsGroup}
	if got := volumeGroups(pod, volumes); !slices.Equal(got, []int64{5, 9}) {
		t.Errorf("got %v", got)
	}
}

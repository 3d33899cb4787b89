package volume

import (
	"context"
	"errors"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/csivolume"
)

// refusingCSI publishes the volumes of all pods but one.
type refusingCSI struct{ refused types.UID }

func (c *refusingCSI) Publish(_ context.Context, v *csivolume.Volume) (string, error) {
	if v.Pod == c.refused {
		return "", errors.New("the driver is absent")
	}
	return "/csi/" + string(v.Pod), nil
}
func (*refusingCSI) Republish(context.Context, *csivolume.Volume) error { return nil }
func (*refusingCSI) Expand(context.Context, *csivolume.Volume, int64) (bool, error) {
	return false, nil
}
func (*refusingCSI) Unpublish(context.Context, types.UID) error { return nil }
func (*refusingCSI) Pods() ([]types.UID, error)                 { return nil, nil }
func (*refusingCSI) Labeled(string) bool                        { return false }

// The usage of a claim is measured where its volume is published, also if another pod waits for it.
func TestMountPathOfCSI(t *testing.T) {
	n := newStorageNode(t)
	n.objects.classes = nil
	n.objects.volumes = []*v1.PersistentVolume{{ObjectMeta: metav1.ObjectMeta{Name: "disk"}, Spec: v1.PersistentVolumeSpec{
		AccessModes: n.claim().Spec.AccessModes, StorageClassName: "ssd", Capacity: n.claim().Spec.Resources.Requests,
		PersistentVolumeSource: v1.PersistentVolumeSource{
			CSI: &v1.CSIPersistentVolumeSource{Driver: "disk.example.com", VolumeHandle: "1"}},
	}}}
	n.CSI = &refusingCSI{refused: "u1"}
	mustBeAt := func(path string, users int) {
		t.Helper()
		claims, err := n.ListClaims()
		if err != nil || len(claims) != 1 || claims[0].MountPath != path || len(claims[0].Users) != users {
			t.Errorf("%+v, %v; want MountPath %q and %d users", claims, err, path, users)
		}
	}
	if _, err := n.Setup(t.Context(), &Request{Pod: claimPod("u1", "data"), Objects: n.objects}); err == nil {
		t.Fatal("published")
	}
	mustBeAt("", 1)
	n.mustUse("u2", "/csi/u2")
	mustBeAt("/csi/u2", 2)
}

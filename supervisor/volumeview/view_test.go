package volumeview

import (
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/api"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/internal/usage"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/supervisor/volume"
)

// The API responds with 404, and a person reads of the volume alone.
func TestAbsentVolumeIsTold(t *testing.T) {
	const text = "no such persistent volume: default/data"
	err := absent{fmt.Errorf("%w: default/data", volume.ErrNoClaim)}
	if !errors.Is(err, fs.ErrNotExist) || err.Error() != text {
		t.Errorf("%v, want %s", err, text)
	}
}

// fakeClaimPods has claims of a manifest and of a cluster.
type fakeClaimPods struct {
	claims  []volume.Claim
	cluster []volume.ClusterClaim
	removed []string
}

func (f *fakeClaimPods) Claims() ([]volume.Claim, error)      { return f.claims, nil }
func (f *fakeClaimPods) ClusterClaims() []volume.ClusterClaim { return f.cluster }

func (f *fakeClaimPods) Pods() []*v1.Pod {
	return []*v1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u1",
		Annotations: map[string]string{podinfo.AnnotationSource: string(podinfo.SourceAPI)}}}}
}

func (f *fakeClaimPods) RemoveClaim(namespace, name string) error {
	if !slices.ContainsFunc(f.claims, func(c volume.Claim) bool { return c.Namespace == namespace && c.Name == name }) {
		return fmt.Errorf("%w: %s/%s", volume.ErrNoClaim, namespace, name)
	}
	f.removed = append(f.removed, namespace+"/"+name)
	return nil
}

func (f *fakeClaimPods) PodClaimPath(types.UID, string) string { return "" }

// declaredClaims are the claims of manifests in the namespace shop: the size by the name.
type declaredClaims map[string]string

func (d declaredClaims) Claim(namespace, name string) (*v1.PersistentVolumeClaim, bool) {
	size, ok := d[name]
	if !ok || namespace != "shop" {
		return nil, false
	}
	claim := &v1.PersistentVolumeClaim{}
	claim.Spec.Resources.Requests = v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)}
	return claim, true
}

func (d declaredClaims) List() (list []manifest.ObjectView) {
	for name := range d {
		list = append(list,
			manifest.ObjectView{ObjectRef: manifest.ObjectRef{Kind: manifest.KindClaim, Namespace: "shop", Name: name},
				Source: manifest.SourceFile})
	}
	return list
}

// The claims of a cluster's pods are listed after those of manifests with the same name, and marked as the pods
// are. They cannot be removed here.
func TestVolumesOfACluster(t *testing.T) {
	disk := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}}
	disk.Spec.StorageClassName, disk.Spec.Capacity = "fast", v1.ResourceList{v1.ResourceStorage: resource.MustParse("2Gi")}
	disk.Spec.CSI = &v1.CSIPersistentVolumeSource{Driver: "disk.example.com", VolumeHandle: "d1"}
	pods := &fakeClaimPods{
		claims: []volume.Claim{{Namespace: "shop", Name: "both", Path: "/v/both"},
			{Namespace: "shop", Name: "left", Path: "/v/left"}},
		cluster: []volume.ClusterClaim{
			{Claim: volume.Claim{Namespace: "shop", Name: "both", Volume: disk, Users: []types.UID{"u1", "u2"}}},
			{Claim: volume.Claim{Namespace: "shop", Name: "data"},
				Waiting: []volume.ClaimWait{{Pod: "u1", Reason: "is not bound"}}},
		},
	}
	view := View{Objects: declaredClaims{"both": "1Gi"}, Pods: pods}
	got, err := view.PersistentVolumes(t.Context(), false)
	want := []api.PersistentVolume{
		{Namespace: "shop", Name: "both", Source: "file", Path: "/v/both", Requested: "1Gi", State: "Bound"},
		{Namespace: "shop", Name: "both", Source: "api", Path: "disk.example.com:d1", Volume: "pv", Type: "csi",
			Capacity: "2Gi", StorageClass: "fast", Pods: []string{"shop/web", "u2"}, State: "Bound"},
		{Namespace: "shop", Name: "data", Source: "api", State: "Waiting",
			Waiting: []api.VolumeWait{{Pod: "shop/web", Message: "is not bound"}}},
		{Namespace: "shop", Name: "left", Path: "/v/left", State: "Bound"},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("listed %v\n%+v, want\n%+v", err, got, want)
	}

	if err := view.RemovePersistentVolume("shop", "both"); err != nil ||
		!slices.Equal(pods.removed, []string{"shop/both"}) {
		t.Errorf("removal of the claim of the manifest: %v %q", err, pods.removed)
	}
	const refusal = "PersistentVolumeClaim shop/data belongs to the cluster, which decides about its volume; delete it " +
		"there: kubectl -n shop delete pvc data"
	if err := view.RemovePersistentVolume("shop", "data"); err == nil || err.Error() != refusal ||
		errors.Is(err, fs.ErrNotExist) {
		t.Errorf("removal of the claim of the cluster: %v, want %s", err, refusal)
	}
	if err := view.RemovePersistentVolume("shop", "none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("removal of no claim: %v", err)
	}
	if len(pods.removed) != 1 {
		t.Errorf("removed %q", pods.removed)
	}
}

// The usage of a claim is that of the directory or device that its pods use.
func TestUsageOfClusterVolumes(t *testing.T) {
	block := v1.PersistentVolumeBlock
	device := &v1.PersistentVolume{Spec: v1.PersistentVolumeSpec{VolumeMode: &block}}
	claims := []volume.ClusterClaim{
		{Claim: volume.Claim{Name: "csi", MountPath: "/pods/u1/data", Volume: &v1.PersistentVolume{}}},
		{Claim: volume.Claim{Name: "raw", Path: "/dev/disk", MountPath: "/dev/disk", Volume: device}},
		{Claim: volume.Claim{Name: "unused", Path: "/dev/other", Volume: device}},
	}
	if got := devicesOf(claims); !slices.Equal(got, []string{"/dev/disk"}) {
		t.Errorf("measured devices: %q", got)
	}
	list := describedClaims{volumes: usage.ClaimVolumes{
		"/pods/u1/data": {Filesystem: usage.Filesystem{Capacity: 9, Used: 3}},
		"/dev/disk":     {Filesystem: usage.Filesystem{Capacity: 8}, Block: true},
	}}
	for i := range claims {
		list.addClusterClaim(&claims[i])
	}
	csi, raw, unused := list.all[0].Usage, list.all[1].Usage, list.all[2].Usage
	if csi == nil || csi.Capacity != 9 || *csi.Used != 3 || raw == nil || raw.Capacity != 8 || raw.Used != nil ||
		unused != nil {
		t.Errorf("%+v, %+v, %+v", csi, raw, unused)
	}
}

// The claims of a cluster's pods are in the metrics, each once, and not those of static pods, which the node binds.
func TestMetricsOfClusterClaims(t *testing.T) {
	pod := func(uid types.UID, source podinfo.Source, claims ...string) *v1.Pod {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: string(uid), UID: uid,
			Annotations: map[string]string{podinfo.AnnotationSource: string(source)}}}
		for _, claim := range claims {
			p.Spec.Volumes = append(p.Spec.Volumes,
				v1.Volume{Name: claim,
					VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}})
		}
		return p
	}
	pods := []*v1.Pod{pod("one", podinfo.SourceAPI, "data", "declared", "unused"), pod("two", podinfo.SourceAPI, "data"),
		pod("static", podinfo.SourceFile, "local")}
	path := func(uid types.UID, volume string) string {
		if volume == "unused" {
			return ""
		}
		return "/" + volume
	}
	volumes := usage.ClaimVolumes{"/data": {}, "/declared": {}, "/local": {}}
	volumes["/data"].Capacity = 7
	got := addClusterClaims([]usage.Claim{{Namespace: "shop", Name: "declared"}}, pods, path, volumes)
	if len(got) != 2 || got[1].Name != "data" || got[1].Namespace != "shop" || got[1].Capacity != 7 {
		t.Errorf("%+v", got)
	}
}

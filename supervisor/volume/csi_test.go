package volume

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/csivolume"
	"github.com/podstead/podstead/internal/fsgroup"
)

// fakeCSI publishes volumes as directories.
type fakeCSI struct {
	dir string
	// err fails every call.
	err error
	// last is the volume of the last call of Publish, with its secrets.
	last    csivolume.Volume
	secrets csivolume.Secrets
	// grown are the sizes in bytes to which volumes were expanded.
	grown        []int64
	expandSecret map[string]string
	unpublished  []types.UID
	// republished counts the calls of Republish.
	republished  int
	republishErr error
	users        []types.UID
}

func (f *fakeCSI) Publish(_ context.Context, v *csivolume.Volume) (string, error) {
	f.last, f.secrets = *v, csivolume.Secrets{}
	if f.err != nil {
		return "", f.err
	}
	if v.PublishBlocked != nil {
		return "", v.PublishBlocked
	}
	f.secrets = v.Secrets
	path := filepath.Join(f.dir, string(v.Pod), v.Name)
	if err := os.MkdirAll(path, 0o755); err != nil {
		return "", err
	}
	if v.SetGroup {
		return path, v.Group.Apply(context.Background(), path, fsgroup.ReadWrite)
	}
	return path, nil
}

func (f *fakeCSI) Republish(context.Context, *csivolume.Volume) error {
	f.republished++
	return f.republishErr
}

func (f *fakeCSI) Expand(_ context.Context, v *csivolume.Volume, bytes int64) (bool, error) {
	if f.err != nil {
		return false, f.err
	}
	if v.ExpandBlocked != nil {
		return false, v.ExpandBlocked
	}
	f.expandSecret = v.Secrets.Expand
	f.grown = append(f.grown, bytes)
	return true, nil
}

func (f *fakeCSI) Unpublish(_ context.Context, uid types.UID) error {
	if f.err == nil {
		f.unpublished = append(f.unpublished, uid)
	}
	return f.err
}

func (f *fakeCSI) Pods() ([]types.UID, error) { return f.users, f.err }
func (f *fakeCSI) Labeled(string) bool        { return false }

// csiNode is a node with a PersistentVolume of a CSI driver for the claim data.
func csiNode(t *testing.T, modes ...v1.PersistentVolumeAccessMode) (*storageNode, *fakeCSI, *v1.PersistentVolumeSpec) {
	n := newStorageNode(t)
	none := ""
	n.claim().Spec.StorageClassName, n.claim().Spec.AccessModes = &none, modes
	volume := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "disk"}}
	volume.Spec.AccessModes = modes
	volume.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
	volume.Spec.CSI = &v1.CSIPersistentVolumeSource{Driver: "a.example.com", VolumeHandle: "handle", FSType: "ext4",
		VolumeAttributes: map[string]string{"color": "red"}}
	volume.Spec.MountOptions = []string{"noatime"}
	n.objects.volumes = []*v1.PersistentVolume{volume}
	n.objects.secrets = map[string]*v1.Secret{}
	csi := &fakeCSI{dir: t.TempDir()}
	n.CSI = csi
	return n, csi, &volume.Spec
}

func TestCSIClaim(t *testing.T) {
	n, csi, spec := csiNode(t, v1.ReadWriteOnce)
	path := filepath.Join(csi.dir, "u1/data")
	spec.CSI.NodeStageSecretRef = &v1.SecretReference{Namespace: "storage", Name: "stage"}
	spec.CSI.NodePublishSecretRef = &v1.SecretReference{Namespace: "storage", Name: "publish"}
	n.objects.secrets["stage"] = &v1.Secret{Data: map[string][]byte{"key": []byte("s1")}}
	n.mustFail("u1", "PersistentVolume disk", "Secret storage/publish not found")
	n.objects.secrets["publish"] = &v1.Secret{Data: map[string][]byte{"key": []byte("s2")}}
	n.mustUse("u1", path)
	v := csi.last
	if v.Driver != "a.example.com" || v.Handle != "handle" || v.Pod != "u1" || v.Name != "data" || v.Ephemeral ||
		v.ReadOnly ||
		v.FSType != "ext4" || !slices.Equal(v.MountOptions, []string{"noatime"}) || v.AccessMode != v1.ReadWriteOnce ||
		v.Context["color"] != "red" {
		t.Errorf("published as %+v", v)
	}
	if csi.secrets.Stage["key"] != "s1" || csi.secrets.Publish["key"] != "s2" {
		t.Errorf("secrets %+v", csi.secrets)
	}
	claims, err := n.ListClaims()
	if err != nil || len(claims) != 1 || claims[0].MountPath != path || !slices.Equal(claims[0].Users, []types.UID{"u1"}) {
		t.Errorf("claims %+v, %v", claims, err)
	}
	// A driver that fails keeps the pod's volumes, its directory and the use of the claim.
	csi.err = errors.New("no answer")
	if err := n.Teardown(t.Context(), "u1"); err == nil || !strings.Contains(err.Error(), "no answer") {
		t.Error(err)
	}
	csi.err = nil
	if err := n.RemoveClaim("apps", "data"); !errors.Is(err, ErrClaimInUse) {
		t.Error(err)
	}
	n.teardown("u1")
	if !slices.Equal(csi.unpublished, []types.UID{"u1"}) {
		t.Errorf("unpublished: %v", csi.unpublished)
	}
	n.mustHave(path) // the volume is the driver's
	if err := n.RemoveClaim("apps", "data"); err != nil {
		t.Error(err)
	}
}

// The use of a volume for one pod is recorded before the driver is called.
func TestCSIClaimForOnePod(t *testing.T) {
	n, csi, _ := csiNode(t, v1.ReadWriteOncePod)
	csi.err = errors.New("hangs")
	n.mustFail("u1", "hangs")
	csi.err = nil
	n.mustFail("u2", "ReadWriteOncePod", "u1")
	if csi.last.Pod != "u1" {
		t.Error("the driver was called for a second pod")
	}
	n.teardown("u1")
	n.mustUse("u2", filepath.Join(csi.dir, "u2/data"))
}

// A volume grows once with its PersistentVolume, also if the driver failed at first, which stops no pod.
func TestCSIVolumeGrows(t *testing.T) {
	n, csi, spec := csiNode(t, v1.ReadWriteOnce)
	path := filepath.Join(csi.dir, "u1/data")
	n.mustUse("u1", path)
	spec.Capacity[v1.ResourceStorage] = resource.MustParse("3Gi")
	setup := func() ([]string, []error) {
		t.Helper()
		result, err := n.Setup(t.Context(), &Request{Pod: claimPod("u1", "data"), Objects: n.objects})
		if err != nil || result.Volumes["data"].Path != path {
			t.Fatalf("%+v %v", result, err)
		}
		return result.Expanded, result.Unexpanded
	}
	failing := &expandFails{fakeCSI: csi}
	n.CSI = failing
	if _, failures := setup(); len(failures) != 1 ||
		failures[0].Error() != `NodeExpandVolume failed for volume "data" : PersistentVolume disk: the disk is busy` {
		t.Errorf("reported: %v", failures)
	}
	n.CSI = csi
	for i, want := range []string{
		`NodeExpandVolume succeeded for volume "data" : CSI driver a.example.com has expanded volume handle to 3221225472 bytes`, ""} {
		if expanded, failures := setup(); strings.Join(expanded, "") != want || len(failures) > 0 {
			t.Errorf("%d: %q %v", i, expanded, failures)
		}
	}
	if !slices.Equal(csi.grown, []int64{3 << 30}) {
		t.Errorf("grown to %v", csi.grown)
	}
	n.restart()
	n.CSI = csi
	setup()
	bound, err := n.ListBindings()
	if err != nil || bound[0].Volume.Spec.Capacity.Storage().String() != "3Gi" || len(csi.grown) != 1 {
		t.Errorf("%+v %v, grown to %v", bound, err, csi.grown)
	}
}

// expandFails is a driver that cannot expand a volume.
type expandFails struct{ *fakeCSI }

func (expandFails) Expand(context.Context, *csivolume.Volume, int64) (bool, error) {
	return false, errors.New("the disk is busy")
}

// The files get the group of the pod by the kubelet's rule for a driver without a CSIDriver object.
func TestCSIGroup(t *testing.T) {
	for name, c := range map[string]struct {
		change func(spec *v1.PersistentVolumeSpec)
		owned  bool
	}{
		"one node":  {func(*v1.PersistentVolumeSpec) {}, true},
		"no fsType": {func(s *v1.PersistentVolumeSpec) { s.CSI.FSType = "" }, false},
		"many nodes": {func(s *v1.PersistentVolumeSpec) { s.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteMany} },
			false},
		"read-only": {func(s *v1.PersistentVolumeSpec) { s.CSI.ReadOnly = true }, false},
		"one pod": {
			func(s *v1.PersistentVolumeSpec) { s.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod} }, true},
	} {
		n, csi, spec := csiNode(t, v1.ReadWriteOnce)
		c.change(spec)
		n.claim().Spec.AccessModes = spec.AccessModes
		p := claimPod("u1", "data")
		group := int64(os.Getgid())
		p.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: &group}
		if _, err := setUp(t, n.Volumes, p, n.objects); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if csi.last.Group.GID == nil || *csi.last.Group.GID != group || csi.last.SetGroup != c.owned {
			t.Errorf("%s: group %v, owned by podstead: %v", name, csi.last.Group, csi.last.SetGroup)
		}
	}
}

func TestInlineCSI(t *testing.T) {
	csi := &fakeCSI{dir: t.TempDir(), users: []types.UID{"gone", "kept"}}
	v := &Volumes{Root: t.TempDir(), CSI: csi}
	readOnly := true
	p := pod("u1", v1.Volume{Name: "data", VolumeSource: v1.VolumeSource{CSI: &v1.CSIVolumeSource{
		Driver: "a.example.com", ReadOnly: &readOnly, VolumeAttributes: map[string]string{"class": "fast"},
		NodePublishSecretRef: &v1.LocalObjectReference{Name: "token"},
	}}})
	p.Namespace, p.Spec.ServiceAccountName = "apps", "web"
	objects := fixed{secrets: map[string]*v1.Secret{"token": {Data: map[string][]byte{"key": []byte("s")}}}}
	if _, err := setUp(t, v, p, objects); err != nil {
		t.Fatal(err)
	}
	got := csi.last
	if !got.Ephemeral || !got.ReadOnly || !strings.HasPrefix(got.Handle, "csi-") || len(got.Handle) != 68 ||
		csi.secrets.Publish["key"] != "s" {
		t.Errorf("published as %+v with %+v", got, csi.secrets)
	}
	for key, want := range map[string]string{
		"csi.storage.k8s.io/ephemeral": "true", "csi.storage.k8s.io/pod.name": "web",
		"csi.storage.k8s.io/pod.namespace": "apps", "csi.storage.k8s.io/pod.uid": "u1",
		"csi.storage.k8s.io/serviceAccount.name": "web",
	} {
		if got.PodContext[key] != want {
			t.Errorf("%s is %q, want %q", key, got.PodContext[key], want)
		}
	}
	if !maps.Equal(got.Context, map[string]string{"class": "fast"}) {
		t.Errorf("attributes %v", got.Context)
	}
	// Pods of which only a volume is left are orphans too.
	uids, _, err := v.Orphans(func(uid types.UID) bool { return uid == "kept" })
	if slices.Sort(uids); err != nil || !slices.Equal(uids, []types.UID{"gone", "u1"}) {
		t.Errorf("orphans %v, %v", uids, err)
	}
	v.CSI = nil
	if _, err := setUp(t, v, p, objects); err == nil || !strings.Contains(err.Error(), "cannot use CSI drivers") {
		t.Error(err)
	}
}

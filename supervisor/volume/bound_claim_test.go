package volume

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/moby/sys/mountinfo"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/manifest/validation"
)

// storageNode is a node with a disk for the class ssd.
type storageNode struct {
	*Volumes
	t       *testing.T
	objects fixed
	// disk is the mount point of the disk, mounted whether it is mounted.
	disk    string
	mounted bool
}

func newStorageNode(t *testing.T) *storageNode {
	dir := t.TempDir()
	n := &storageNode{t: t, objects: claimOf(v1.ReadWriteOnce), disk: filepath.Join(dir, "disk"), mounted: true}
	if err := os.MkdirAll(n.disk+"/claims", 0o755); err != nil {
		t.Fatal(err)
	}
	class := "ssd"
	n.claim().Spec.StorageClassName = &class
	n.claim().Spec.Resources.Requests = v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
	n.objects.classes = []*storagev1.StorageClass{{
		ObjectMeta: metav1.ObjectMeta{Name: "ssd"}, Provisioner: validation.ProvisionerDirectory,
		Parameters: map[string]string{validation.ParameterPath: n.disk + "/claims"},
	}}
	n.Volumes = &Volumes{Root: filepath.Join(dir, "pods"), Claims: filepath.Join(dir, "volumes"),
		Bindings: filepath.Join(dir, "bindings.json")}
	n.restart()
	return n
}

func (n *storageNode) claim() *v1.PersistentVolumeClaim { return n.objects.claims["data"] }

// restart replaces the daemon: what it knows is on disk.
func (n *storageNode) restart() {
	n.Volumes = &Volumes{Root: n.Root, Claims: n.Claims, Bindings: n.Bindings,
		host: host{mounts: func() ([]*mountinfo.Info, error) {
			list := []*mountinfo.Info{{Mountpoint: "/"}}
			if n.mounted {
				list = append(list, &mountinfo.Info{Mountpoint: n.disk})
			}
			return list, nil
		}}}
}

// use sets up the claim for a pod, and returns the path of its volume.
func (n *storageNode) use(uid types.UID) (string, error) {
	n.t.Helper()
	paths, err := setUp(n.t, n.Volumes, claimPod(uid, "data"), n.objects)
	return paths["data"], err
}

func (n *storageNode) mustUse(uid types.UID, want string) {
	n.t.Helper()
	if got, err := n.use(uid); err != nil || got != want {
		n.t.Fatalf("pod %s uses %q, %v; want %s", uid, got, err, want)
	}
}

func (n *storageNode) mustFail(uid types.UID, parts ...string) {
	n.t.Helper()
	got, err := n.use(uid)
	for _, part := range parts {
		if err == nil || !strings.Contains(err.Error(), part) {
			n.t.Fatalf("pod %s uses %q, %v; want an error with %q", uid, got, err, part)
		}
	}
}

func (n *storageNode) write(path string) {
	n.t.Helper()
	if err := os.WriteFile(path, []byte("kept"), 0o600); err != nil {
		n.t.Fatal(err)
	}
}

func (n *storageNode) mustHave(path string) {
	n.t.Helper()
	if _, err := os.Stat(path); err != nil {
		n.t.Error(err)
	}
}

func (n *storageNode) teardown(uid types.UID) {
	n.t.Helper()
	if err := n.Teardown(context.Background(), uid); err != nil {
		n.t.Fatal(err)
	}
}

// reclaim reclaims the volumes of claims other than those that are declared.
func (n *storageNode) reclaim(declared ...string) (reclaimed int, err error) {
	n.t.Helper()
	found, err := n.Unclaimed(func(_, name string) bool { return slices.Contains(declared, name) })
	for i := range found {
		if err := n.Reclaim(&found[i]); err != nil {
			return reclaimed, err
		}
		reclaimed++
	}
	return reclaimed, err
}

func TestProvisionedClaim(t *testing.T) {
	n := newStorageNode(t)
	dir := n.disk + "/claims/apps/data"
	n.mounted = false
	n.mustFail("u1", "is on the root file system", "mountPoint: /")
	n.mounted = true
	n.mustUse("u1", dir)
	if m := permissions(t, dir); m != 0o777 {
		t.Errorf("mode %o", m)
	}
	if m := permissions(t, filepath.Dir(dir)); m&0o007 != 0 {
		t.Errorf("the directory of the namespace is accessible to others: mode %o", m)
	}
	n.write(dir + "/file")
	// The collector of statistics follows the link.
	n.mustHave(filepath.Join(n.Root, "u1/volumes/kubernetes.io~local-volume/data/file"))
	n.restart()
	// The binding stays when the class is gone. Without the disk no container starts, also not one of
	// the pod that has it: the runtime would create the directory below the mount point.
	n.objects.classes, n.mounted = nil, false
	n.mustFail("u1", "is on the root file system")
	n.mustFail("u2", "is on the root file system")
	n.mounted = true
	n.mustUse("u1", dir)
	n.mustUse("u2", dir)
	list, err := n.ListClaims()
	if err != nil || len(list) != 1 || list[0].Path != dir ||
		time.Since(list[0].Volume.CreationTimestamp.Time) > time.Hour || list[0].Volume.Name != "apps.data" ||
		!slices.Equal(list[0].Users, []types.UID{"u1", "u2"}) {
		t.Errorf("%+v %v", list, err)
	}
	if err := n.RemoveClaim("apps", "data"); !errors.Is(err, ErrClaimInUse) {
		t.Errorf("removed while in use: %v", err)
	}
	n.teardown("u1")
	n.teardown("u2")
	// Retain is the policy of a class without one.
	if count, err := n.reclaim(); count != 0 || err != nil {
		t.Error(count, err)
	}
	n.mustHave(dir + "/file")
	// Another disk at its place is not filled.
	if err := os.Rename(dir, n.disk+"/away"); err != nil {
		t.Fatal(err)
	}
	n.mustFail("u3", "does not exist any more", "podstead volumes rm apps/data")
	if err := os.Rename(n.disk+"/away", dir); err != nil {
		t.Fatal(err)
	}
	n.mustUse("u3", dir)
	n.mustHave(dir + "/file")
	n.teardown("u3")
	n.mounted = false
	if err := n.RemoveClaim("apps", "data"); err == nil {
		t.Error("removed without its disk")
	}
	n.mounted = true
	if err := n.RemoveClaim("apps", "data"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory was not removed: %v", err)
	}
	if err := n.RemoveClaim("apps", "data"); !errors.Is(err, ErrNoClaim) {
		t.Errorf("removed twice: %v", err)
	}
}

func TestMountPointOfClass(t *testing.T) {
	n := newStorageNode(t)
	parameters := n.objects.classes[0].Parameters
	parameters[validation.ParameterMountPoint] = n.disk + "/claims"
	n.mustFail("u1", "nothing is mounted on "+n.disk+"/claims")
	// Nothing was created, and the class can still be corrected.
	if entries, err := os.ReadDir(n.disk + "/claims"); err != nil || len(entries) != 0 {
		t.Errorf("%v %v", entries, err)
	}
	// A path that is missing is not to be created below a mount point without its disk.
	parameters[validation.ParameterPath] = n.disk + "/claims/new"
	n.mustFail("u1", "nothing is mounted on "+n.disk+"/claims; mount its disk")
	parameters[validation.ParameterMountPoint] = "/"
	n.mustFail("u1", "path "+n.disk+"/claims/new does not exist; create it")
	parameters[validation.ParameterPath] = n.disk
	n.mounted = false
	n.mustUse("u1", n.disk+"/apps/data")
}

func TestReclaimPolicyDelete(t *testing.T) {
	n := newStorageNode(t)
	policy, dir := v1.PersistentVolumeReclaimDelete, n.disk+"/claims/apps/data"
	n.objects.classes[0].ReclaimPolicy = &policy
	n.mustUse("u1", dir)
	n.write(dir + "/file")
	if count, err := n.reclaim("data"); count != 0 || err != nil {
		t.Error(count, err)
	}
	if _, err := n.reclaim(); !errors.Is(err, ErrClaimInUse) {
		t.Errorf("reclaimed while in use: %v", err)
	}
	n.teardown("u1")
	n.mounted = false
	if _, err := n.reclaim(); err == nil {
		t.Error("reclaimed without its disk")
	}
	if err := n.RemoveClaim("apps", "data"); err == nil {
		t.Error("removed without its disk")
	}
	n.mustHave(dir + "/file")
	// What failed is not done later: the claim is declared again.
	n.mounted = true
	if count, err := n.reclaim("data"); count != 0 || err != nil {
		t.Error(count, err)
	}
	n.mustUse("u1", dir)
	n.mustHave(dir + "/file")
	n.teardown("u1")
	// A deletion that has begun ends before the claim is used again, also after a restart.
	if _, err := n.startRemoval("apps", "data", false); err != nil {
		t.Fatal(err)
	}
	n.restart()
	n.mustFail("u2", "is being deleted")
	if count, err := n.reclaim("data"); count != 1 || err != nil {
		t.Error(count, err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory was not removed: %v", err)
	}
	n.mustUse("u2", dir)
}

func TestDeclaredVolume(t *testing.T) {
	n := newStorageNode(t)
	n.claim().Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
	disk := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "usb"}, Spec: v1.PersistentVolumeSpec{
		AccessModes: n.claim().Spec.AccessModes, StorageClassName: "ssd", Capacity: n.claim().Spec.Resources.Requests,
		PersistentVolumeSource: v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: n.disk + "/usb"}},
	}}
	n.objects.volumes = []*v1.PersistentVolume{disk}
	n.mustFail("u1", "local path "+n.disk+"/usb does not exist")
	if err := os.Mkdir(n.disk+"/usb", 0o755); err != nil {
		t.Fatal(err)
	}
	n.mustUse("u1", n.disk+"/usb")
	n.write(n.disk + "/usb/file")
	n.mustFail("u2", "ReadWriteOncePod", "UID u1 uses it")
	// Without its disk no container of the pod starts again.
	if err := os.Rename(n.disk+"/usb", n.disk+"/away"); err != nil {
		t.Fatal(err)
	}
	n.mustFail("u1", "local path "+n.disk+"/usb does not exist")
	if err := os.Rename(n.disk+"/away", n.disk+"/usb"); err != nil {
		t.Fatal(err)
	}
	n.mustUse("u1", n.disk+"/usb")
	// Another claim does not get it, also after a restart.
	n.restart()
	other := n.claim().DeepCopy()
	other.Name = "other"
	n.objects.claims["other"], n.objects.classes = other, nil
	if _, err := setUp(t, n.Volumes, claimPod("u3", "other"), n.objects); err == nil ||
		!strings.Contains(err.Error(), "usb is bound to claim apps/data") {
		t.Errorf("bound twice: %v", err)
	}
	n.teardown("u1")
	n.mustUse("u2", n.disk+"/usb")
	n.teardown("u2")
	// A changed source is reported, and not in effect.
	changed := disk.DeepCopy()
	changed.Spec.Local.Path = n.disk + "/elsewhere"
	n.objects.volumes[0] = changed
	result, err := n.Setup(t.Context(), &Request{Pod: claimPod("u4", "data"), Objects: n.objects})
	if err != nil || result.Volumes["data"].Path != n.disk+"/usb" || len(result.Stale) != 1 ||
		!strings.Contains(result.Stale[0].Error(), "has another source") {
		t.Errorf("%+v %v", result, err)
	}
	n.teardown("u4")
	hdd := "hdd"
	n.claim().Spec.VolumeName, n.objects.volumes[0] = "x", disk
	if result, err = n.Setup(t.Context(), &Request{Pod: claimPod("u4", "data"), Objects: n.objects}); err != nil ||
		len(result.Stale) != 1 || !strings.Contains(result.Stale[0].Error(),
		"spec.volumeName of PersistentVolumeClaim apps/data has changed") {
		t.Errorf("%+v %v", result, err)
	}
	n.teardown("u4")
	n.claim().Spec.VolumeName, n.claim().Spec.StorageClassName = "", &hdd
	if result, err = n.Setup(t.Context(), &Request{Pod: claimPod("u4", "data"), Objects: n.objects}); err != nil ||
		len(result.Stale) != 1 || !strings.Contains(result.Stale[0].Error(),
		"spec.storageClassName of PersistentVolumeClaim apps/data has changed") {
		t.Errorf("%+v %v", result, err)
	}
	n.teardown("u4")
	// A released volume stays reserved for its claim until the user removes that.
	if count, err := n.reclaim(); count != 0 || err != nil {
		t.Error(count, err)
	}
	if err := n.RemoveClaim("apps", "data"); err != nil {
		t.Error(err)
	}
	if path, err := setUp(t, n.Volumes, claimPod("u5", "other"), n.objects); err != nil || path["data"] != n.disk+"/usb" {
		t.Errorf("%v %v", path, err)
	}
	n.teardown("u5")
	if err := n.RemoveClaim("apps", "other"); err != nil {
		t.Error(err)
	}
	n.mustHave(n.disk + "/usb/file")
}

// A claim that has a directory of an earlier version keeps it, whatever it requests.
func TestOwnDirectoryIsKept(t *testing.T) {
	n := newStorageNode(t)
	own := filepath.Join(n.Claims, "apps/data")
	if err := os.MkdirAll(own, 0o777); err != nil {
		t.Fatal(err)
	}
	result, err := n.Setup(t.Context(), &Request{Pod: claimPod("u1", "data"), Objects: n.objects})
	if err != nil || result.Volumes["data"].Path != own || len(result.Stale) != 1 ||
		!strings.Contains(result.Stale[0].Error(), "spec.storageClassName has no effect") ||
		!strings.Contains(result.Stale[0].Error(), "podstead volumes rm apps/data") {
		t.Errorf("%+v %v", result, err)
	}
	if result, err = n.Setup(t.Context(), &Request{Pod: claimPod("u1", "data"), Objects: n.objects}); err != nil ||
		len(result.Stale) != 0 {
		t.Errorf("reported again: %+v %v", result, err)
	}
	n.teardown("u1")
	if err := n.RemoveClaim("apps", "data"); err != nil {
		t.Fatal(err)
	}
	n.mustUse("u2", n.disk+"/claims/apps/data")
}

// Without the bindings no claim is bound, since it could get the volume of another one.
func TestDamagedBindings(t *testing.T) {
	n := newStorageNode(t)
	for _, text := range []string{"{", `{"version": 2}`, `{"version": 1, "bindings": [{"claim": "x"}]}`} {
		if err := os.WriteFile(n.Bindings, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		n.restart()
		n.mustFail("u1", "failed to read the bindings of claims", n.Bindings)
	}
	own := filepath.Join(n.Claims, "apps/data")
	if err := os.MkdirAll(own, 0o777); err != nil {
		t.Fatal(err)
	}
	n.mustUse("u1", own)
	if err := os.Remove(n.Bindings); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(own); err != nil {
		t.Fatal(err)
	}
	n.mustUse("u2", n.disk+"/claims/apps/data")
}

// A volume that a claim names is not bound to another claim, whichever of their pods starts first.
func TestNamedVolumeIsNotBoundToAnotherClaim(t *testing.T) {
	n := newStorageNode(t)
	disk := filepath.Join(n.disk, "photos")
	if err := os.MkdirAll(disk, 0o755); err != nil {
		t.Fatal(err)
	}
	n.objects.classes = nil
	n.claim().Spec.StorageClassName = nil
	n.objects.volumes = []*v1.PersistentVolume{{
		ObjectMeta: metav1.ObjectMeta{Name: "photos"},
		Spec: v1.PersistentVolumeSpec{
			Capacity:    v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			PersistentVolumeSource: v1.PersistentVolumeSource{
				HostPath: &v1.HostPathVolumeSource{Path: disk},
			},
		},
	}}
	named := n.claim().DeepCopy()
	named.Name, named.Spec.VolumeName = "photos", "photos"
	n.objects.claims["photos"] = named
	n.mustUse("u1", filepath.Join(n.Claims, "apps/data"))
	paths, err := setUp(t, n.Volumes, claimPod("u2", "photos"), n.objects)
	if err != nil || paths["data"] != disk {
		t.Errorf("the claim that names the volume has %s, %v", paths["data"], err)
	}
}

package volume

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func claimPod(uid types.UID, name string) *v1.Pod {
	p := pod(uid, v1.Volume{Name: "data",
		VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name}}})
	p.Namespace = "apps"
	return p
}

func claimOf(modes ...v1.PersistentVolumeAccessMode) fixed {
	claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "data"},
		Spec: v1.PersistentVolumeClaimSpec{AccessModes: modes}}
	return fixed{claims: map[string]*v1.PersistentVolumeClaim{"data": claim}}
}

func TestClaimOutlivesItsPods(t *testing.T) {
	dir := t.TempDir()
	v := &Volumes{Root: filepath.Join(dir, "pods"), Claims: filepath.Join(dir, "volumes"),
		Bindings: filepath.Join(dir, "bindings.json")}
	if _, err := setUp(t, v, claimPod("u1", "data"), fixed{}); !errors.Is(err, ErrMissing) ||
		!strings.Contains(err.Error(), "PersistentVolumeClaim apps/data") {
		t.Fatalf("a missing claim: %v", err)
	}
	claimDir := filepath.Join(v.Claims, "apps/data")
	for range 2 {
		paths, err := setUp(t, v, claimPod("u1", "data"), claimOf(v1.ReadWriteOnce))
		if err != nil || paths["data"] != claimDir {
			t.Fatal(paths, err)
		}
	}
	if m := permissions(t, claimDir); m != 0o777 {
		t.Errorf("mode %o", m)
	}
	if m := permissions(t, v.Claims); m&0o007 != 0 {
		t.Errorf("%s is accessible to others: mode %o", v.Claims, m)
	}
	if err := os.WriteFile(filepath.Join(claimDir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	// An existing volume survives the removal of its claim's manifest.
	result, err := v.Setup(t.Context(), &Request{Pod: claimPod("u1", "data"), Objects: fixed{}})
	if err != nil || result.Volumes["data"].Path != claimDir || len(result.Stale) != 1 ||
		!errors.Is(result.Stale[0], ErrMissing) {
		t.Error(result, err)
	}
	if _, err := setUp(t, v, claimPod("u2", "data"), claimOf(v1.ReadWriteOnce)); err != nil {
		t.Fatal(err)
	}
	list, err := v.ListClaims()
	if err != nil || len(list) != 1 || list[0].Path != claimDir || !slices.Equal(list[0].Users, []types.UID{"u1", "u2"}) {
		t.Error(list, err)
	}
	for _, uid := range []types.UID{"u1", "u2"} {
		if err := v.RemoveClaim("apps", "data"); !errors.Is(err, ErrClaimInUse) {
			t.Errorf("removed while in use: %v", err)
		}
		if err := v.Teardown(t.Context(), uid); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(filepath.Join(claimDir, "file")); err != nil {
		t.Fatal("the data was removed with the pods")
	}
	if err := v.RemoveClaim("apps", "data"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"data", "..", "../pods", ""} {
		if err := v.RemoveClaim("apps", name); !errors.Is(err, ErrNoClaim) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestClaimForOnePod(t *testing.T) {
	dir := t.TempDir()
	v := &Volumes{Root: filepath.Join(dir, "pods"), Claims: filepath.Join(dir, "volumes"),
		Bindings: filepath.Join(dir, "bindings.json")}
	for range 2 {
		if _, err := setUp(t, v, claimPod("u1", "data"), claimOf(v1.ReadWriteOncePod)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := setUp(t, v, claimPod("u2", "data"), claimOf(v1.ReadWriteOncePod)); err == nil ||
		!strings.Contains(err.Error(), "the pod with UID u1 uses it") {
		t.Errorf("a second pod: %v", err)
	}
	v.PodName = func(uid types.UID) string { return "apps/" + string(uid) }
	if _, err := setUp(t, v, claimPod("u2", "data"), claimOf(v1.ReadWriteOncePod)); err == nil ||
		!strings.Contains(err.Error(), "and pod apps/u1 uses it") {
		t.Errorf("a second pod: %v", err)
	}
	if err := v.RemoveClaim("apps", "data"); err == nil ||
		!strings.Contains(err.Error(), "apps/data is used by pod apps/u1; remove it first") {
		t.Error(err)
	}
	if err := v.Teardown(t.Context(), "u1"); err != nil {
		t.Fatal(err)
	}
	if _, err := setUp(t, v, claimPod("u2", "data"), claimOf(v1.ReadWriteOncePod)); err != nil {
		t.Error(err)
	}
}

func TestClaimsWithoutADirectory(t *testing.T) {
	dir := t.TempDir()
	v := &Volumes{Root: filepath.Join(dir, "pods"), Claims: filepath.Join(dir, "volumes"),
		Bindings: filepath.Join(dir, "bindings.json")}
	block := v1.PersistentVolumeBlock
	objects := claimOf(v1.ReadWriteOnce)
	objects.claims["data"].Spec.VolumeMode = &block
	if _, err := setUp(t, v, claimPod("u1", "data"), objects); err == nil ||
		!strings.Contains(err.Error(), "volumeMode Block, and local.path of a block device") {
		t.Error(err)
	}
	objects = claimOf(v1.ReadWriteOnce)
	objects.claims["data"].Spec.DataSource = &v1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "x"}
	if _, err := setUp(t, v, claimPod("u1", "data"), objects); err == nil || !strings.Contains(err.Error(), "dataSource") {
		t.Error(err)
	}
	if _, err := setUp(t, v, claimPod("u1", "../../etc"), claimOf()); err == nil {
		t.Error("a claim's name led outside")
	}
	result, err := v.Setup(t.Context(), &Request{Pod: claimPod("u1", "data"), Objects: claimOf(v1.ReadOnlyMany)})
	if err != nil || !result.Volumes["data"].ReadOnly {
		t.Error(result, err)
	}
}

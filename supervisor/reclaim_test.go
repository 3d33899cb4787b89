package supervisor

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/manifest/validation"
	"github.com/podstead/podstead/supervisor/podinputs"
	"github.com/podstead/podstead/supervisor/volume"
)

// claimObjects has the claim default/data of a class, unless it is removed.
type claimObjects struct {
	podinputs.NoObjects
	class   *storagev1.StorageClass
	removed bool
}

func (o *claimObjects) Claim(_, name string) (*v1.PersistentVolumeClaim, bool) {
	if o.removed || name != "data" {
		return nil, false
	}
	return &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: v1.PersistentVolumeClaimSpec{StorageClassName: &o.class.Name}}, true
}

func (o *claimObjects) StorageClasses() []*storagev1.StorageClass {
	return []*storagev1.StorageClass{o.class}
}

// A volume is deleted when its claim is in no manifest for a while, all sources have delivered and no
// pod uses it.
func TestVolumeReclaim(t *testing.T) {
	dir := t.TempDir()
	policy := v1.PersistentVolumeReclaimDelete
	objects := &claimObjects{class: &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "c"}, Provisioner: validation.ProvisionerDirectory, ReclaimPolicy: &policy,
		Parameters: map[string]string{validation.ParameterPath: dir, validation.ParameterMountPoint: "/"},
	}}
	volumes := &volume.Volumes{Root: filepath.Join(dir, "pods"), Claims: filepath.Join(dir, "claims"),
		Bindings: filepath.Join(dir, "bindings")}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "u1"}, Spec: v1.PodSpec{
		Containers: []v1.Container{{Name: "a", VolumeMounts: []v1.VolumeMount{{Name: "v", MountPath: "/v"}}}},
		Volumes: []v1.Volume{{Name: "v",
			VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}},
	}}
	result, err := volumes.Setup(t.Context(), &volume.Request{Pod: pod, Objects: objects})
	if err != nil {
		t.Fatal(err)
	}
	path, now, ready, faulty := result.Volumes["v"].Path, time.Now(), false, false
	cfg := &Config{Log: slog.New(slog.DiscardHandler)}
	cfg.Sources.Objects, cfg.Sources.Faulty = objects, func() bool { return faulty }
	r := newVolumeReclaimer(cfg, volumes, func() bool { return ready })
	check := func(what string, want time.Duration, kept bool) {
		t.Helper()
		next := r.round(now)
		if _, err := os.Stat(path); next != want || (err == nil) != kept {
			t.Errorf("%s: the next round is in %s, want %s; %v", what, next, want, err)
		}
	}
	objects.removed = true
	check("sources have not delivered", 0, true)
	ready, objects.removed = true, false
	check("the claim is declared", 0, true)
	objects.removed = true
	check("the claim was removed", reclaimDelay, true)
	now = now.Add(reclaimDelay - time.Second)
	check("shortly before the deletion", time.Second, true)
	objects.removed = false
	check("the claim has moved", 0, true)
	objects.removed, faulty = true, true
	check("a manifest has a fault", reclaimRetry, true)
	faulty = false
	check("the claim was removed again", reclaimDelay, true)
	now = now.Add(reclaimDelay)
	check("a pod uses it", 0, true)
	if err := volumes.Teardown(t.Context(), pod.UID); err != nil {
		t.Fatal(err)
	}
	check("no pod uses it", 0, false)
	if list, err := volumes.ListBindings(); len(list) != 0 || err != nil {
		t.Errorf("%v %v", list, err)
	}
}

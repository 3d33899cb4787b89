package volume

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// listOne returns the only claim that pods use or wait for.
func (n *clusterNode) listOne(pods ...*v1.Pod) ClusterClaim {
	n.t.Helper()
	list := n.ListClusterClaims(pods, n)
	if len(list) != 1 || list[0].Namespace != "apps" || list[0].Name != "data" {
		n.t.Fatalf("listed %+v", list)
	}
	return list[0]
}

func (n *clusterNode) mustList(pods []*v1.Pod, users []types.UID, waits ...ClaimWait) ClusterClaim {
	n.t.Helper()
	c := n.listOne(pods...)
	if !slices.Equal(c.Users, users) || !slices.Equal(c.Waiting, waits) {
		n.t.Errorf("used by %v, waiting %+v; want %v and %+v", c.Users, c.Waiting, users, waits)
	}
	return c
}

// A claim is listed with the reason that its pod is shown, also one that only the setup of its volume knows, until the
// pod uses it; and until the pod has ended.
func TestListOfClusterClaims(t *testing.T) {
	n := newClusterNode(t)
	bound := n.volume
	n.volume, n.failure = nil, errors.New("is not bound")
	pods := []*v1.Pod{claimPod("u1", "data")}
	if c := n.mustList(pods, nil, ClaimWait{"u1", "is not bound"}); c.Volume != nil || c.Path != "" || c.MountPath != "" {
		t.Errorf("not bound: %+v", c)
	}
	n.volume, n.failure = bound, nil
	if c := n.mustList(pods, nil); c.Volume != bound || c.Path != n.dir || c.MountPath != "" {
		t.Errorf("bound, and not used yet: %+v", c)
	}
	n.mustFail("u1", "does not exist")
	n.mustList(pods, nil, ClaimWait{"u1",
		"PersistentVolume pv: local path " + n.dir + " does not exist; mount or create it"})
	if err := os.MkdirAll(n.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	n.mustUse("u1", n.dir)
	n.claim.Spec.Resources.Requests = v1.ResourceList{v1.ResourceStorage: resource.MustParse("3Gi")}
	if c := n.mustList(pods, []types.UID{"u1"}); c.MountPath != n.dir || c.Volume != bound || c.Requested != "3Gi" {
		t.Errorf("used: %+v", c)
	}

	// Another pod must not start to use it. The first one keeps it.
	pods = append(pods, claimPod("u2", "data"))
	n.failure = errors.New("is being deleted")
	n.mustFail("u2", "is being deleted")
	n.mustList(pods, []types.UID{"u1"}, ClaimWait{"u2", "is being deleted"})

	// A daemon that returns does not know yet what the claim is bound to, and the pod uses it.
	n.Volumes = &Volumes{Root: n.Root, Claims: n.Claims, Bindings: n.Bindings}
	n.volume, n.failure = nil, errors.New("has not answered")
	if c := n.mustList(pods[:1], []types.UID{"u1"}); c.Path != n.dir || c.MountPath != n.dir {
		t.Errorf("after a restart: %+v", c)
	}

	// Pods that end wait for nothing.
	n.mustFail("u1", "has not answered")
	for _, p := range pods {
		p.DeletionTimestamp = &metav1.Time{}
	}
	n.mustList(pods, []types.UID{"u1"})
	if err := n.Teardown(t.Context(), "u1"); err != nil {
		t.Fatal(err)
	}
	if list := n.ListClusterClaims(pods, n); len(list) != 0 {
		t.Errorf("of pods that have ended: %+v", list)
	}
	if len(n.waits.reasons) != 0 {
		t.Errorf("kept %v", n.waits.reasons)
	}
}

// Only claims that a container mounts are listed, each once, sorted; also those of ephemeral volumes.
func TestListOfClusterClaimsOfManyPods(t *testing.T) {
	n := newClusterNode(t)
	if err := os.MkdirAll(n.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	unused, ephemeral := claimPod("u1", "data"), claimPod("u3", "data")
	unused.Spec.Volumes = append(unused.Spec.Volumes,
		v1.Volume{Name: "more",
			VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "unused"}}})
	ephemeral.Name, ephemeral.Spec.Volumes[0].VolumeSource = "a", v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}
	n.mustUse("u1", n.dir)
	n.mustUse("u2", n.dir)
	list := n.ListClusterClaims([]*v1.Pod{unused, claimPod("u2", "data"), ephemeral}, n)
	if len(list) != 2 || list[0].Name != "a-data" || list[1].Name != "data" ||
		!slices.Equal(list[1].Users, []types.UID{"u1", "u2"}) {
		t.Errorf("%+v", list)
	}
}

// What a pod uses is shown, not the volume of a claim that was created again under the same name.
func TestListOfReplacedClusterClaim(t *testing.T) {
	n := newClusterNode(t)
	pods := []*v1.Pod{claimPod("new", "data"), claimPod("old", "data")}
	link := filepath.Join(n.Root, "old", volumesDir, pluginBound, "data")
	if err := linkTo(link, clusterVolume+"v1"); err != nil {
		t.Fatal(err)
	}
	other := n.volume.DeepCopy()
	other.Name = "other"
	c := n.ListClusterClaims(pods, boundByPod{n, map[types.UID]*v1.PersistentVolume{"old": n.volume, "new": other}})
	if len(c) != 1 || c[0].Volume != n.volume || !slices.Equal(c[0].Users, []types.UID{"old"}) {
		t.Errorf("%+v", c)
	}
}

// boundByPod is a cluster in which pods see different claims.
type boundByPod struct {
	*clusterNode
	volumes map[types.UID]*v1.PersistentVolume
}

func (b boundByPod) BoundClaim(pod *v1.Pod, _ *v1.Volume) (*v1.PersistentVolumeClaim, *v1.PersistentVolume, error) {
	return b.claim, b.volumes[pod.UID], nil
}

// The size of a block device can be measured by its path while a pod uses it.
func TestListOfClusterBlockDevice(t *testing.T) {
	n := newClusterNode(t)
	mode := v1.PersistentVolumeBlock
	n.volume.Spec.VolumeMode, n.volume.Spec.Local.Path = &mode, "/dev/disk"
	pods := []*v1.Pod{claimPod("u1", "data")}
	if c := n.listOne(pods...); c.Path != "/dev/disk" || c.MountPath != "" {
		t.Errorf("not used: %+v", c)
	}
	if err := linkTo(filepath.Join(n.Root, "u1", volumesDir, pluginBound, "data"), clusterVolume+"v1"); err != nil {
		t.Fatal(err)
	}
	if c := n.listOne(pods...); c.MountPath != "/dev/disk" {
		t.Errorf("used: %+v", c)
	}
}

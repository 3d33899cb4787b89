package volume

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/csivolume"
	podinfo "github.com/podstead/podstead/internal/pod"
)

// clusterNode is a node of a cluster that has bound one claim.
type clusterNode struct {
	*Volumes
	t      *testing.T
	dir    string
	claim  *v1.PersistentVolumeClaim
	volume *v1.PersistentVolume
	// failure is why no pod may start to use the claim.
	failure error
	// driver is what the cluster reports of the CSI driver, and attachment of the volume; awaited is why it does not.
	driver     csivolume.Driver
	attachment map[string]string
	awaited    error
	secrets    map[string]*v1.Secret
	// expand is the capacity to which the volume is to be expanded, and ended how that did.
	expand int64
	ended  []string
	// stale and unexpanded are those of the last result.
	stale, unexpanded []error
}

func (n *clusterNode) BoundClaim(*v1.Pod, *v1.Volume) (*v1.PersistentVolumeClaim, *v1.PersistentVolume, error) {
	return n.claim, n.volume, n.failure
}

func (n *clusterNode) CSIDriver(string) (csivolume.Driver, error) {
	if n.awaited != nil {
		return csivolume.Driver{}, n.awaited
	}
	return n.driver, nil
}

func (n *clusterNode) CSIAttachment(*v1.Pod, *v1.PersistentVolume) (map[string]string, error) {
	if n.attachment == nil {
		return nil, errors.New("is not attached yet")
	}
	return n.attachment, nil
}

func (n *clusterNode) CSIExpansion(*v1.Pod, *v1.Volume) int64 { return n.expand }

func (n *clusterNode) CSIExpanded(pod *v1.Pod, volume *v1.Volume, bytes int64, failure error) {
	n.ended = append(n.ended, fmt.Sprint(pod.UID, " ", volume.Name, " ", bytes, " ", failure))
}

func (n *clusterNode) CSITokens(pod *v1.Pod, requests []storagev1.TokenRequest) (string, error) {
	return string(pod.UID) + " for " + requests[0].Audience, nil
}

func newClusterNode(t *testing.T) *clusterNode {
	dir := t.TempDir()
	n := &clusterNode{
		Volumes: &Volumes{Root: filepath.Join(dir, "pods"), Claims: filepath.Join(dir, "volumes"),
			Bindings: filepath.Join(dir, "bindings.json")},
		t: t, dir: filepath.Join(dir, "disk"),
		claim: &v1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "data", UID: "c1"},
			Spec: v1.PersistentVolumeClaimSpec{AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
				VolumeName: "pv"},
		},
	}
	n.volume = &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv", UID: "v1"}}
	n.volume.Spec.Local = &v1.LocalVolumeSource{Path: n.dir}
	return n
}

// setup sets up the volumes of a pod that uses the claim.
func (n *clusterNode) setup(p *v1.Pod) (Mounted, error) {
	n.t.Helper()
	result, err := n.Setup(n.t.Context(), &Request{Pod: p, Objects: fixed{secrets: n.secrets}, Cluster: n})
	n.stale, n.unexpanded = result.Stale, result.Unexpanded
	return result.Volumes["data"], err
}

func (n *clusterNode) use(uid types.UID) (string, error) {
	n.t.Helper()
	mounted, err := n.setup(claimPod(uid, "data"))
	return mounted.Path, err
}

func (n *clusterNode) mustUse(uid types.UID, want string) {
	n.t.Helper()
	if got, err := n.use(uid); err != nil || got != want {
		n.t.Fatalf("pod %s uses %q, %v; want %s", uid, got, err, want)
	}
}

func (n *clusterNode) mustFail(uid types.UID, parts ...string) {
	n.t.Helper()
	got, err := n.use(uid)
	for _, part := range append(parts, "PersistentVolumeClaim apps/data: ") {
		if err == nil || !strings.Contains(err.Error(), part) {
			n.t.Fatalf("pod %s uses %q, %v; want an error with %q", uid, got, err, part)
		}
	}
}

// A pod uses the volume of its claim. Nothing of the volume is created or deleted here, and a claim
// of the same name in a manifest is another one.
func TestClusterClaim(t *testing.T) {
	n := newClusterNode(t)
	n.mustFail("u1", "local path "+n.dir+" does not exist")
	if _, err := os.Stat(n.dir); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("the path was created: %v", err)
	}
	if err := os.MkdirAll(n.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	n.mustUse("u1", n.dir)
	if err := os.WriteFile(n.dir+"/file", []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	// The collector of statistics follows the link.
	if _, err := os.Stat(filepath.Join(n.Root, "u1/volumes/kubernetes.io~local-volume/data/file")); err != nil {
		t.Error(err)
	}
	if paths, err := setUp(t, n.Volumes, claimPod("static", "data"), claimOf(v1.ReadWriteOncePod)); err != nil ||
		paths["data"] != filepath.Join(n.Claims, "apps/data") {
		t.Errorf("the claim of a manifest: %v %v", paths, err)
	}
	n.mustUse("u2", n.dir)
	if list, err := n.ListBindings(); err != nil || len(list) != 0 {
		t.Errorf("bindings of this node: %v %v", list, err)
	}
	for _, uid := range []types.UID{"u1", "u2"} {
		if err := n.Teardown(t.Context(), uid); err != nil {
			t.Fatal(err)
		}
		if err := n.Remove(t.Context(), uid); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := os.ReadFile(n.dir + "/file"); err != nil || string(text) != "kept" {
		t.Errorf("the data: %q %v", text, err)
	}
}

// A fault keeps pods from starting to use the claim. One that uses it goes on, but not with another
// volume under the same name.
func TestClusterClaimInUse(t *testing.T) {
	n := newClusterNode(t)
	if err := os.MkdirAll(n.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	n.mustUse("u1", n.dir)
	n.failure = errors.New("is being deleted")
	n.mustUse("u1", n.dir)
	n.mustFail("u2", "is being deleted")
	n.failure = nil
	other := n.volume.DeepCopy()
	other.Name, other.UID = "other", "v2"
	n.volume = other
	n.mustFail("u1", "is bound to PersistentVolume other now, and the pod uses another one; delete the pod")
	n.mustUse("u2", n.dir)
	n.claim, n.volume, n.failure = nil, nil, errors.New("the API server has not answered yet")
	n.mustFail("u1", "has not answered yet")
}

func TestClusterClaimForOnePod(t *testing.T) {
	n := newClusterNode(t)
	if err := os.MkdirAll(n.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	n.claim.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
	n.mustUse("u1", n.dir)
	n.mustFail("u2", "ReadWriteOncePod", "UID u1 uses it")
	// The use is on disk: it outlives the daemon.
	n.Volumes = &Volumes{Root: n.Root, Claims: n.Claims, Bindings: n.Bindings}
	n.mustFail("u2", "ReadWriteOncePod", "UID u1 uses it")
	n.mustUse("u1", n.dir)
	if err := n.Teardown(t.Context(), "u1"); err != nil {
		t.Fatal(err)
	}
	n.mustUse("u2", n.dir)
}

func TestClusterClaimReadOnly(t *testing.T) {
	n := newClusterNode(t)
	if err := os.MkdirAll(n.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	group := testGroup()
	p := claimPod("u1", "data")
	p.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: &group}
	p.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly = true
	if mounted, err := n.setup(p); err != nil || !mounted.ReadOnly {
		t.Errorf("%+v %v", mounted, err)
	}
	if _, mode := ownedBy(t, n.dir); mode&os.ModeSetgid != 0 {
		t.Error("a volume that is read-only was given to the pod's group")
	}
	// As at a kubelet, the access modes do not make it read-only.
	n.claim.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadOnlyMany}
	p = claimPod("u2", "data")
	p.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: &group}
	if mounted, err := n.setup(p); err != nil || mounted.ReadOnly || !mounted.Relabel {
		t.Errorf("%+v %v", mounted, err)
	}
	if got, mode := ownedBy(t, n.dir); got != group || mode&os.ModeSetgid == 0 {
		t.Errorf("the volume has group %d, mode %v; want %d", got, mode, group)
	}
	// The claim of a generic ephemeral volume is named after the pod.
	p = claimPod("u3", "")
	p.Spec.Volumes[0].VolumeSource = v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}
	if mounted, err := n.setup(p); err != nil || mounted.Path != n.dir {
		t.Errorf("%+v %v", mounted, err)
	}
	n.volume, n.failure = nil, errors.New("is not bound")
	p.UID = "u4"
	if _, err := n.setup(p); err == nil ||
		!strings.Contains(err.Error(), "PersistentVolumeClaim apps/web-data: is not bound") {
		t.Error(err)
	}
}

// The group of a volume is one of the pod's containers.
func TestGroupOfClusterVolume(t *testing.T) {
	n := newClusterNode(t)
	if err := os.MkdirAll(n.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	n.volume.Annotations = map[string]string{podinfo.AnnotationVolumeGroup: "2345"}
	for range 2 {
		if mounted, err := n.setup(claimPod("u1", "data")); err != nil || mounted.Group == nil || *mounted.Group != 2345 {
			t.Errorf("%+v %v", mounted, err)
		}
	}
	n.volume.Annotations[podinfo.AnnotationVolumeGroup] = "staff"
	n.mustFail("u2", `annotation pv.beta.kubernetes.io/gid is "staff", and must be the number of a group`)
}

func TestClusterVolumesThatCannotBeUsed(t *testing.T) {
	block := v1.PersistentVolumeBlock
	for name, test := range map[string]struct {
		change func(*v1.PersistentVolumeSpec)
		parts  []string
	}{
		"another mode": {func(s *v1.PersistentVolumeSpec) { s.VolumeMode = &block },
			[]string{"PersistentVolume pv has volumeMode Block, and the claim has volumeMode Filesystem"}},
		"another type": {func(s *v1.PersistentVolumeSpec) { s.Local, s.ISCSI = nil, &v1.ISCSIPersistentVolumeSource{} },
			[]string{"is of type iscsi", "supports hostPath, local, nfs and csi"}},
		"mount options": {func(s *v1.PersistentVolumeSpec) { s.MountOptions = []string{"noatime"} },
			[]string{"has spec.mountOptions"}},
		"relative path": {func(s *v1.PersistentVolumeSpec) { s.Local.Path = "disk" },
			[]string{`local path "disk" must be absolute`}},
		"a file": {func(s *v1.PersistentVolumeSpec) {
			s.Local.Path += "-file"
			if err := os.WriteFile(s.Local.Path, nil, 0o600); err != nil {
				panic(err)
			}
		}, []string{"is not a directory"}},
		"hostPath of a type that is not there": {func(s *v1.PersistentVolumeSpec) {
			kind := v1.HostPathDirectory
			s.HostPath, s.Local = &v1.HostPathVolumeSource{Path: s.Local.Path, Type: &kind}, nil
		}, []string{"does not exist, but its type is Directory"}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newClusterNode(t)
			test.change(&n.volume.Spec)
			n.mustFail("u1", test.parts...)
			if users, err := n.claimUsers(clusterVolume + "v1"); err != nil || slices.Contains(users, "u1") {
				t.Errorf("a use was recorded: %v %v", users, err)
			}
		})
	}
}

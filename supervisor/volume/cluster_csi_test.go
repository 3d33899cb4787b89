package volume

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/csivolume"
)

// newClusterCSI returns a node of a cluster whose claim is bound to the volume of a CSI driver.
func newClusterCSI(t *testing.T) (*clusterNode, *fakeCSI) {
	n := newClusterNode(t)
	csi := &fakeCSI{dir: t.TempDir()}
	n.CSI, n.secrets = csi, map[string]*v1.Secret{}
	n.driver = csivolume.Driver{Persistent: true}
	n.volume.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	n.volume.Spec.MountOptions = []string{"noatime"}
	n.volume.Spec.Local, n.volume.Spec.CSI = nil,
		&v1.CSIPersistentVolumeSource{Driver: "a.example.com", VolumeHandle: "h", FSType: "ext4",
			VolumeAttributes: map[string]string{"color": "red"}}
	return n, csi
}

func (n *clusterNode) inline() *v1.Pod {
	p := pod("u1", v1.Volume{Name: "data",
		VolumeSource: v1.VolumeSource{
			CSI: &v1.CSIVolumeSource{Driver: "a.example.com", VolumeAttributes: map[string]string{"class": "fast"}}}})
	p.Namespace, p.Spec.ServiceAccountName = "apps", "web"
	return p
}

// A pod waits until the controller has attached its volume, and the driver gets what that reports. What is
// published stays so without the cluster.
func TestClusterCSIVolume(t *testing.T) {
	n, csi := newClusterCSI(t)
	n.driver.Attach = true
	n.volume.Spec.CSI.NodeStageSecretRef = &v1.SecretReference{Namespace: "storage", Name: "stage"}
	n.mustFail("u1", "PersistentVolume pv: is not attached yet")
	n.attachment = map[string]string{"device": "sdb"}
	n.mustFail("u1", "Secret storage/stage not found")
	n.secrets["stage"] = &v1.Secret{Data: map[string][]byte{"key": []byte("s")}}
	path := filepath.Join(csi.dir, "u1/data")
	n.mustUse("u1", path)
	v := csi.last
	if v.Handle != "h" || v.Ephemeral || v.FSType != "ext4" || !slices.Equal(v.MountOptions, []string{"noatime"}) ||
		v.AccessMode != v1.ReadWriteOnce ||
		v.Context["color"] != "red" || v.AttachContext["device"] != "sdb" || v.PodContext != nil || v.Republish ||
		csi.secrets.Stage["key"] != "s" {
		t.Errorf("published as %+v with %+v", v, csi.secrets)
	}
	if users, err := n.claimUsers(clusterVolume + "v1"); err != nil || !slices.Equal(users, []types.UID{"u1"}) {
		t.Errorf("users %v %v", users, err)
	}
	n.CSI = published{csi, path}
	n.awaited = errors.New("the API server has not answered yet")
	n.mustUse("u1", path)

	n.CSI, n.awaited = csi, nil
	n.claim.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
	n.mustFail("u2", "ReadWriteOncePod", "UID u1 uses it")
	p := claimPod("u1", "data")
	p.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly = true
	if mounted, err := n.setup(p); err != nil || !mounted.ReadOnly || !csi.last.ReadOnly {
		t.Errorf("%+v %v", mounted, err)
	}
}

// published leaves a volume alone that is published.
type published struct {
	*fakeCSI
	path string
}

func (p published) Publish(context.Context, *csivolume.Volume) (string, error) { return p.path, nil }

// The driver gets what its CSIDriver object reports: what it wants to know of the pod, and tokens.
func TestClusterCSIDriver(t *testing.T) {
	n, csi := newClusterCSI(t)
	n.driver.PodInfo, n.driver.Tokens = true, []storagev1.TokenRequest{{Audience: "vault"}}
	p := claimPod("u1", "data")
	p.Namespace, p.Spec.ServiceAccountName = "apps", "web"
	info := map[string]string{
		"csi.storage.k8s.io/ephemeral": "false", "csi.storage.k8s.io/pod.name": p.Name,
		"csi.storage.k8s.io/pod.namespace": "apps",
		"csi.storage.k8s.io/pod.uid":       "u1", "csi.storage.k8s.io/serviceAccount.name": "web",
	}
	mustGet := func(context, secret map[string]string) {
		t.Helper()
		if _, err := n.setup(p); err != nil || !maps.Equal(csi.last.PodContext, context) ||
			!maps.Equal(csi.secrets.Publish, secret) {
			t.Errorf("the driver got %v and the secret %v, %v; want %v and %v", csi.last.PodContext, csi.secrets.Publish, err,
				context, secret)
		}
	}
	tokens := map[string]string{"csi.storage.k8s.io/serviceAccount.tokens": "u1 for vault"}
	both := maps.Clone(info)
	maps.Copy(both, tokens)
	mustGet(both, nil)
	n.driver.TokensInSecrets = true
	mustGet(info, tokens)
	n.secrets["publish"] = &v1.Secret{Data: map[string][]byte{"key": []byte("s")}}
	n.volume.Spec.CSI.NodePublishSecretRef = &v1.SecretReference{Namespace: "storage", Name: "publish"}
	tokens["key"] = "s"
	mustGet(info, tokens)
	n.driver.PodInfo, n.driver.Tokens = false, nil
	mustGet(nil, map[string]string{"key": "s"})
	n.driver = csivolume.Driver{Ephemeral: true}
	n.mustFail("u2", "CSI driver a.example.com does not support PersistentVolumes", "spec.volumeLifecycleModes")
}

// The fsGroupPolicy of the driver decides whether files get the group of the pod.
func TestClusterCSIGroup(t *testing.T) {
	many := []v1.PersistentVolumeAccessMode{v1.ReadWriteMany}
	one := []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
	for name, c := range map[string]struct {
		policy   storagev1.FSGroupPolicy
		fsType   string
		modes    []v1.PersistentVolumeAccessMode
		readOnly bool
		owned    bool
	}{
		"default":             {"", "ext4", one, false, true},
		"one node":            {storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy, "ext4", one, false, true},
		"many nodes":          {storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy, "ext4", many, false, false},
		"no fsType":           {storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy, "", one, false, false},
		"none":                {storagev1.NoneFSGroupPolicy, "ext4", one, false, false},
		"file":                {storagev1.FileFSGroupPolicy, "", many, false, true},
		"file, and read-only": {storagev1.FileFSGroupPolicy, "", many, true, false},
	} {
		n, csi := newClusterCSI(t)
		n.driver.GroupPolicy = c.policy
		n.volume.Spec.AccessModes, n.volume.Spec.CSI.FSType, n.volume.Spec.CSI.ReadOnly = c.modes, c.fsType, c.readOnly
		p := claimPod("u1", "data")
		group := testGroup()
		p.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: &group}
		if _, err := n.setup(p); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if csi.last.Group.GID == nil || *csi.last.Group.GID != group || csi.last.SetGroup != c.owned {
			t.Errorf("%s: group %v, owned by podstead: %v", name, csi.last.Group, csi.last.SetGroup)
		}
	}
}

// A driver supports volumes that are declared in pods only if its CSIDriver object allows it, and gets to know
// the pod only if it wants to.
func TestClusterInlineCSI(t *testing.T) {
	n, csi := newClusterCSI(t)
	_, err := n.setup(n.inline())
	for _, part := range []string{"CSI driver a.example.com", "field csi", "spec.volumeLifecycleModes", "Ephemeral"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v; want %q", err, part)
		}
	}
	n.driver = csivolume.Driver{Ephemeral: true, Attach: true} // such a volume is never attached
	if _, err := n.setup(n.inline()); err != nil || !csi.last.Ephemeral || csi.last.PodContext != nil ||
		csi.last.Context["class"] != "fast" {
		t.Errorf("published as %+v, %v", csi.last, err)
	}
	n.driver.PodInfo = true
	if _, err := n.setup(n.inline()); err != nil || csi.last.PodContext["csi.storage.k8s.io/ephemeral"] != "true" ||
		csi.last.PodContext["csi.storage.k8s.io/pod.name"] != "web" {
		t.Errorf("published as %+v, %v", csi.last, err)
	}
	n.awaited = errors.New("the API server has not answered yet")
	if _, err := n.setup(n.inline()); !errors.Is(err, n.awaited) {
		t.Error(err)
	}
}

// Only drivers that want it are called again. If that fails, the pod goes on with the volume.
func TestClusterCSIRepublish(t *testing.T) {
	n, csi := newClusterCSI(t)
	path := filepath.Join(csi.dir, "u1/data")
	n.mustUse("u1", path)
	if csi.republished != 0 || csi.last.Republish {
		t.Errorf("called %d times", csi.republished)
	}
	n.driver.Republish, csi.republishErr = true, errors.New("no token")
	n.mustUse("u1", path)
	if csi.republished != 1 || !csi.last.Republish || len(n.stale) != 1 ||
		!strings.Contains(n.stale[0].Error(), `"data" : the volume keeps its content: no token`) {
		t.Errorf("called %d times; stale %v", csi.republished, n.stale)
	}
}

// A block device has neither a file system nor a group.
func TestClusterCSIBlock(t *testing.T) {
	n, csi := newClusterCSI(t)
	n.driver.GroupPolicy = storagev1.FileFSGroupPolicy
	block := v1.PersistentVolumeBlock
	n.volume.Spec.VolumeMode, n.claim.Spec.VolumeMode = &block, &block
	p := asDevice(claimPod("u1", "data"))
	group := testGroup()
	p.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: &group}
	p.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly = true
	want := Mounted{Path: filepath.Join(csi.dir, "u1/data"), Device: true, ReadOnly: true}
	if mounted, err := n.setup(p); err != nil || mounted != want {
		t.Errorf("%+v, %v; want %+v", mounted, err, want)
	}
	if v := csi.last; !v.Block || !v.ReadOnly || v.FSType != "" || v.MountOptions != nil || v.Group.GID != nil ||
		v.SetGroup {
		t.Errorf("published as %+v", v)
	}
	n.mustFail("u2", "has volumeMode Block, but is in volumeMounts of container")
}

// A volume that the cluster has expanded is expanded on the node, which the cluster is notified of. A pod does not
// wait for that, nor for the secret that the driver needs only then.
func TestClusterCSIVolumeGrows(t *testing.T) {
	n, csi := newClusterCSI(t)
	n.claim.Status.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Ki")}
	n.volume.Spec.CSI.NodeExpandSecretRef = &v1.SecretReference{Namespace: "storage", Name: "expand"}
	path := filepath.Join(csi.dir, "u1/data")
	n.mustUse("u1", path)
	if csi.last.Capacity != 1024 || len(csi.grown) != 0 || len(n.ended) != 0 {
		t.Errorf("published with the capacity %d; grown %v, ended %q", csi.last.Capacity, csi.grown, n.ended)
	}
	n.expand = 2048
	n.mustUse("u1", path)
	if len(n.ended) != 1 || !strings.HasPrefix(n.ended[0], "u1 data 2048 ") ||
		!strings.Contains(n.ended[0], "Secret storage/expand not found") {
		t.Errorf("ended: %q", n.ended)
	}
	if len(n.unexpanded) != 1 || !strings.Contains(n.unexpanded[0].Error(),
		`volume "data" : PersistentVolume pv: Secret storage/expand not found`) {
		t.Errorf("reported %v", n.unexpanded)
	}
	n.ended, n.secrets["expand"] = nil, &v1.Secret{Data: map[string][]byte{"key": []byte("e")}}
	n.mustUse("u1", path)
	if !slices.Equal(csi.grown, []int64{2048}) || !slices.Equal(n.ended, []string{"u1 data 2048 <nil>"}) ||
		csi.expandSecret["key"] != "e" {
		t.Errorf("grown to %v with %v; ended: %q", csi.grown, csi.expandSecret, n.ended)
	}
	// A volume that the pod only reads does not grow.
	p := claimPod("u1", "data")
	p.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly = true
	if _, err := n.setup(p); err != nil || len(csi.grown) != 1 || len(n.ended) != 1 {
		t.Errorf("%v: grown to %v; ended: %q", err, csi.grown, n.ended)
	}
}

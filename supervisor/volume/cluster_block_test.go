package volume

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
)

// A pod has the block device of a local volume of its cluster. Other types have no devices.
func TestClusterBlockVolume(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("device nodes need root")
	}
	n := newClusterNode(t)
	if err := unix.Mknod(n.dir, unix.S_IFBLK|0o600, int(unix.Mkdev(7, 250))); err != nil {
		t.Fatal(err)
	}
	n.openExclusive = func(string) error { return nil }
	block := v1.PersistentVolumeBlock
	n.volume.Spec.VolumeMode, n.claim.Spec.VolumeMode = &block, &block
	want := Mounted{Path: n.dir, Device: true}
	for range 2 {
		if mounted, err := n.setup(asDevice(claimPod("u1", "data"))); err != nil || mounted != want || len(n.stale) > 0 {
			t.Errorf("%+v, %v, stale %v; want %+v", mounted, err, n.stale, want)
		}
	}
	n.mustFail("u2", "has volumeMode Block, but is in volumeMounts of container")
	n.volume.Spec.HostPath, n.volume.Spec.Local = &v1.HostPathVolumeSource{Path: n.dir}, nil
	n.mustFail("u2", "is of type hostPath and has volumeMode Block", "local and csi")
}

package volume

import (
	"os"
	"strings"
	"testing"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/supervisor/volume/binding"
)

// asDevice makes a pod use its volumes as devices.
func asDevice(pod *v1.Pod) *v1.Pod {
	c := &pod.Spec.Containers[0]
	for _, m := range c.VolumeMounts {
		c.VolumeDevices = append(c.VolumeDevices, v1.VolumeDevice{Name: m.Name, DevicePath: "/dev/" + m.Name})
	}
	c.VolumeMounts = nil
	return pod
}

func TestBlockVolume(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("device nodes need root")
	}
	n := newStorageNode(t)
	device, link, file := n.disk+"/device", n.disk+"/by-id", n.disk+"/file"
	const major, minor = 7, 250
	if err := unix.Mknod(device, unix.S_IFBLK|0o600, int(unix.Mkdev(major, minor))); err != nil {
		t.Fatal(err)
	}
	n.write(file)
	block := v1.PersistentVolumeBlock
	n.claim().Spec.VolumeMode = &block
	volume := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "raw"}, Spec: v1.PersistentVolumeSpec{
		AccessModes: n.claim().Spec.AccessModes, StorageClassName: "ssd", Capacity: n.claim().Spec.Resources.Requests,
		VolumeMode:             &block,
		PersistentVolumeSource: v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: link}},
	}}
	n.objects.volumes = []*v1.PersistentVolume{volume}
	mustFail := func(pod *v1.Pod, want string) {
		t.Helper()
		if result, err := n.Setup(t.Context(), &Request{Pod: pod, Objects: n.objects}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v, %v; want an error with %q", result, err, want)
		}
	}
	mustHave := func(uid types.UID, readOnly bool) {
		t.Helper()
		pod := asDevice(claimPod(uid, "data"))
		pod.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly = readOnly
		result, err := n.Setup(t.Context(), &Request{Pod: pod, Objects: n.objects})
		if want := (Mounted{Path: device, Device: true, ReadOnly: readOnly}); err != nil || result.Volumes["data"] != want {
			t.Errorf("%+v, %v; want %+v", result.Volumes["data"], err, want)
		}
	}
	mustFail(asDevice(claimPod("u1", "data")), "local path "+link+" does not exist; connect the device")
	for target, want := range map[string]string{file: "is not a block device", n.disk: "is not a block device",
		device: ""} {
		if err := os.Symlink(target, link+".new"); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(link+".new", link); err != nil {
			t.Fatal(err)
		}
		if want != "" {
			mustFail(asDevice(claimPod("u1", "data")), want)
		}
	}
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(device, link); err != nil {
		t.Fatal(err)
	}
	mustFail(claimPod("u1", "data"), "has volumeMode Block, but is in volumeMounts of container")
	points := n.Volumes.mounts
	n.Volumes.mounts = func() ([]*mountinfo.Info, error) {
		return []*mountinfo.Info{{Mountpoint: "/mnt", Major: major, Minor: minor}}, nil
	}
	mustFail(asDevice(claimPod("u1", "data")), "block device "+link+" is mounted on /mnt; unmount it")
	n.Volumes.mounts = points
	n.Volumes.openExclusive = func(opened string) error {
		if opened != device {
			t.Errorf("%s was opened", opened)
		}
		return unix.EBUSY
	}
	mustFail(asDevice(claimPod("u1", "data")), "block device "+device+" is in use by the host")
	n.Volumes.openExclusive = func(string) error { return nil }
	mustHave("u1", false)
	mustHave("u2", true)
	n.Volumes.openExclusive = func(string) error { return unix.EBUSY } // the pods themselves
	mustHave("u1", false)
	// A pod that uses it keeps it, also if no manifest declares the claim any more. Its disk must be there.
	n.restart()
	claim := n.claim()
	delete(n.objects.claims, "data")
	mustHave("u1", false)
	n.objects.claims["data"] = claim
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	mustFail(asDevice(claimPod("u1", "data")), "does not exist; connect the device")
	n.mustHave(device)
}

// A claim keeps what it is bound to; a mode that is changed later is reported.
func TestVolumeModes(t *testing.T) {
	n := newStorageNode(t)
	block := v1.PersistentVolumeBlock
	if _, err := n.Setup(t.Context(), &Request{Pod: asDevice(claimPod("u1", "data")), Objects: n.objects}); err == nil ||
		!strings.Contains(err.Error(), "has volumeMode Filesystem, but is in volumeDevices of container") {
		t.Errorf("a directory as a device: %v", err)
	}
	n.mustUse("u1", n.disk+"/claims/apps/data")
	n.claim().Spec.VolumeMode = &block
	result, err := n.Setup(t.Context(), &Request{Pod: claimPod("u2", "data"), Objects: n.objects})
	if err != nil || len(result.Stale) != 1 ||
		!strings.Contains(result.Stale[0].Error(), "spec.volumeMode of PersistentVolumeClaim apps/data has changed") {
		t.Errorf("a changed mode: %v, %v", result.Stale, err)
	}
	// So does one with a directory of its own.
	n.claim().Spec.StorageClassName, n.claim().Spec.VolumeMode = nil, nil
	if err := n.RemoveClaim("apps", "data"); err == nil {
		t.Error("removed while in use")
	}
	n.teardown("u1")
	n.teardown("u2")
	if err := n.RemoveClaim("apps", "data"); err != nil {
		t.Fatal(err)
	}
	n.objects.classes = nil
	n.mustUse("u3", n.Claims+"/apps/data")
	n.claim().Spec.VolumeMode = &block
	n.mustFail("u3", "spec.volumeMode is Block, and the claim is bound to its directory "+n.Claims+"/apps/data")
	if binding.ModeOf(nil) != v1.PersistentVolumeFilesystem || binding.IsBlock(nil) || !binding.IsBlock(&block) {
		t.Error("an absent mode is Filesystem")
	}
}

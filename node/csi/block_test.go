package csi

import (
	"os"
	"path/filepath"
	"testing"
)

// A block device is published at a file, for which the driver need not mount anything. It has no file system.
func TestBlockDevice(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("device nodes need root")
	}
	h := newHarness(t)
	h.register("a.example.com")
	v := volumeOf("a.example.com", "v", "one")
	v.Block = true
	path, err := h.Publish(t.Context(), v)
	if err != nil {
		t.Fatal(err)
	}
	devices := filepath.Join(h.dir, "plugins/kubernetes.io/csi/volumeDevices")
	name := hashOf("a.example.com\x00v")
	if want := filepath.Join(devices, "publish", name, "one/data"); path != want {
		t.Errorf("published at %s, want %s", path, want)
	}
	if staging := h.requests["NodeStageVolume"][3]; staging != filepath.Join(devices, "staging", name) {
		t.Errorf("staged at %s", staging)
	}
	for _, path := range []string{path, filepath.Join(devices, "staging", name)} {
		if rel, err := filepath.Rel(h.dir, path); err != nil || !isVolumePath(rel) {
			t.Errorf("%s is not known as the path of a volume: %v", path, err)
		}
	}
	for method, field := range map[string]int{"NodeStageVolume": 4, "NodePublishVolume": 5} {
		capability := fieldsOf([]byte(h.requests[method][field]))
		if _, mount := capability[2]; mount || capability[1] != "" {
			t.Errorf("%s: capability %v", method, capability)
		}
	}
	h.start()
	h.register("a.example.com")
	if again, err := h.Publish(t.Context(), v); err != nil || again != path {
		t.Errorf("published at %s, %v", again, err)
	}
	h.mustUnpublish("one")
	if got := h.called(); got != "Stage v, Publish v, Unpublish v, Unstage v" {
		t.Errorf("called: %s", got)
	}
	h.mustBeClean()
}

// The driver must place a block device.
func TestNoBlockDevice(t *testing.T) {
	h := newHarness(t)
	h.register("a.example.com")
	v := volumeOf("a.example.com", "v", "one")
	v.Block = true
	path, err := h.targetPath(v)
	if err != nil {
		t.Fatal(err)
	}
	h.wrongDevice = true
	_, err = h.Publish(t.Context(), v)
	mustContain(t, err, "no block device is at "+path, "plugins/kubernetes.io/csi with mountPropagation")
	h.mustUnpublish("one")
	h.mustBeClean()
}

// A record that is damaged never lets a pod with a block device end as if it had none: neither while a volume is
// mounted, nor when the record was moved aside because none is.
func TestDamagedStateOfABlockDevice(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("device nodes need root")
	}
	h := newHarness(t)
	h.register("a.example.com")
	v := volumeOf("a.example.com", "v", "one")
	v.Block = true
	device, err := h.Publish(t.Context(), v)
	if err != nil {
		t.Fatal(err)
	}
	saved, err := os.ReadFile(h.file())
	if err != nil {
		t.Fatal(err)
	}
	restart := func(record []byte) {
		t.Helper()
		if err := os.WriteFile(h.file(), record, 0o600); err != nil {
			t.Fatal(err)
		}
		h.start()
		h.register("a.example.com")
	}
	restart([]byte("{"))
	mustContain(t, h.Unpublish(t.Context(), "one"), "failed to read which CSI volumes are in use", h.file())
	h.mustUnpublish("three")

	// A driver need not mount anything for a block device.
	mounted := h.mounted
	h.mounted = map[string]string{}
	restart([]byte("{"))
	mustContain(t, h.Unpublish(t.Context(), "one"), device+" was published for the pod", "then remove the file")
	h.mustUnpublish("three")

	h.mounted = mounted
	restart(saved)
	h.mustUnpublish("one")
	if got := h.called(); got != "Stage v, Publish v, Unpublish v, Unstage v" {
		t.Errorf("called: %s", got)
	}
}

package harness

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/podstead/podstead/test/testbed"
)

// Attachment returns the object that the attach-detach controller makes for a volume on the node.
func (d *CSIDriver) Attachment(volume string) (name, text string) {
	// The name is part of the API between the controller and the kubelet.
	name = fmt.Sprintf("csi-%x", sha256.Sum256([]byte(volume+d.Name+d.n.Name)))
	return name, fmt.Sprintf("apiVersion: storage.k8s.io/v1\nkind: VolumeAttachment\nmetadata: {name: %s}\n"+
		"spec: {attacher: %s, nodeName: %s, source: {persistentVolumeName: %s}}\n", name, d.Name, d.n.Name, volume)
}

// CSIDriver is the CSI driver of test/csidriver, in a pod of the node.
type CSIDriver struct {
	n    *Node
	Name string
	// dir is the directory that the driver shares with the test.
	Dir string
}

// NewCSIDriver returns a driver. Its pod is not started.
func (n *Node) NewCSIDriver(name string) *CSIDriver {
	n.T.Helper()
	d := &CSIDriver{n: n, Name: name + ".csi.example.com", Dir: filepath.Join(n.Dir(), "csi-"+name)}
	for _, dir := range []string{"volumes", "hang", "fail", "condition", "leave", "without"} {
		if err := os.MkdirAll(filepath.Join(d.Dir, dir), 0o755); err != nil {
			n.T.Fatal(err)
		}
	}
	n.T.Cleanup(func() {
		entries, _ := os.ReadDir(filepath.Join(d.Dir, "hang"))
		for _, e := range entries {
			_ = os.Remove(filepath.Join(d.Dir, "hang", e.Name()))
		}
		if n.T.Failed() {
			n.T.Logf("calls of driver %s:\n%s", d.Name, LastLines(filepath.Join(d.Dir, "calls.jsonl"), 40))
		}
	})
	return d
}

// pod returns the manifest of the driver's pod.
func (d *CSIDriver) pod() string {
	p := testbed.CSIDriverPod{Name: d.PodName(), Driver: d.Name, Dir: d.Dir, Socket: d.Socket(), Registered: d.Socket(),
		Root: d.n.Root}
	return p.Manifest()
}

// Socket is what the driver serves.
func (d *CSIDriver) Socket() string { return filepath.Join(d.n.Root, "plugins", d.Name, "csi.sock") }

// PodName returns the name of the pod that runs the driver.
func (d *CSIDriver) PodName() string { return strings.Split(d.Name, ".")[0] + "-driver" }

// Manifest returns the file name of the manifest of that pod.
func (d *CSIDriver) Manifest() string { return d.PodName() + ".yaml" }

// Start starts the driver's pod.
func (d *CSIDriver) Start() Instance {
	d.n.T.Helper()
	d.n.WriteManifest(d.Manifest(), d.pod())
	return d.n.AwaitRunning(d.PodName())
}

// Kill kills the driver, which its pod starts again.
func (d *CSIDriver) Kill(i Instance) {
	d.n.T.Helper()
	if err := unix.Kill(i.Pid, unix.SIGKILL); err != nil {
		d.n.T.Fatal(err)
	}
}

// Volume makes the directory of a volume.
func (d *CSIDriver) Volume(id string) string {
	d.n.T.Helper()
	dir := filepath.Join(d.Dir, "volumes", id)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		d.n.T.Fatal(err)
	}
	return dir
}

// Set writes a file by which the test controls the driver, and unset removes it.
func (d *CSIDriver) Set(file, content string) {
	d.n.T.Helper()
	if err := os.WriteFile(filepath.Join(d.Dir, file), []byte(content), 0o644); err != nil {
		d.n.T.Fatal(err)
	}
}

// Unset removes a file that set wrote.
func (d *CSIDriver) Unset(file string) {
	d.n.T.Helper()
	if err := os.Remove(filepath.Join(d.Dir, file)); err != nil {
		d.n.T.Fatal(err)
	}
}

// CSICall is a call that the driver got.
type CSICall struct {
	Method  string
	Request struct {
		VolumeID         string            `json:"volume_id"`
		Secrets          map[string]string `json:"secrets"`
		VolumeContext    map[string]string `json:"volume_context"`
		PublishContext   map[string]string `json:"publish_context"`
		VolumeCapability struct {
			AccessMode struct {
				Mode int `json:"mode"`
			} `json:"access_mode"`
		} `json:"volume_capability"`
	}
}

// Calls returns the calls with which volumes are mounted and unmounted, by method and volume.
func (d *CSIDriver) Calls() []CSICall {
	d.n.T.Helper()
	f, err := os.Open(filepath.Join(d.Dir, "calls.jsonl"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		d.n.T.Fatal(err)
	}
	defer f.Close()
	var found []CSICall
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var c CSICall
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			continue // the driver writes it
		}
		if c.Request.VolumeID != "" {
			found = append(found, c)
		}
	}
	return found
}

// callsFor returns the calls for a volume, without those that read, as Stage for NodeStageVolume.
func (d *CSIDriver) callsFor(id string) (found []string) {
	d.n.T.Helper()
	for _, c := range d.Calls() {
		if c.Request.VolumeID == id && c.Method != "NodeGetVolumeStats" {
			found = append(found, strings.TrimSuffix(strings.TrimPrefix(c.Method, "Node"), "Volume"))
		}
	}
	return found
}

// MustHaveCalled fails the test unless these are all calls for a volume, without those that read.
func (d *CSIDriver) MustHaveCalled(id string, want ...string) {
	d.n.T.Helper()
	if got := d.callsFor(id); !slices.Equal(got, want) {
		d.n.T.Errorf("the calls for volume %s are %v, want %v", id, got, want)
	}
}

// AwaitCalls waits until the last calls for a volume are these, without those that read.
func (d *CSIDriver) AwaitCalls(id string, want ...string) {
	d.n.T.Helper()
	d.n.Await(fmt.Sprintf("the last calls for volume %s are %v", id, want), func() error {
		got := d.callsFor(id)
		if !slices.Equal(got[max(0, len(got)-len(want)):], want) {
			return fmt.Errorf("calls: %v", got)
		}
		return nil
	})
}

// CSIVolume is a volume of the driver, with further fields of its source and of its spec, and the claim
// that is bound to it.
func (d *CSIDriver) CSIVolume(name, source, more string) string {
	return fmt.Sprintf(`---
apiVersion: v1
kind: PersistentVolume
metadata: {name: %[1]s}
spec: {accessModes: [ReadWriteOnce], capacity: {storage: 1Gi}, csi: {driver: %[2]s, volumeHandle: %[1]s, %[3]s}, %[4]s}
`, name, d.Name, source, more) + StorageClaim(name, "1Gi", "storageClassName: '', volumeName: "+name)
}

// CsiMounts returns what is mounted of CSI drivers on the node.
func (n *Node) CsiMounts() []string {
	n.T.Helper()
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		n.T.Fatal(err)
	}
	var found []string
	for line := range strings.Lines(string(data)) {
		point := strings.Fields(line)[4]
		if strings.HasPrefix(point, n.Root) &&
			(strings.Contains(point, "kubernetes.io~csi") || strings.HasSuffix(point, "/globalmount")) {
			found = append(found, point)
		}
	}
	return found
}

// AwaitNoCSI waits until nothing of CSI drivers is mounted or recorded.
func (n *Node) AwaitNoCSI() {
	n.T.Helper()
	n.Await("nothing of CSI drivers is left", func() error {
		if found := n.CsiMounts(); len(found) > 0 {
			return fmt.Errorf("mounted: %v", found)
		}
		state, err := os.ReadFile(filepath.Join(n.Root, "csi-volumes.json"))
		if err != nil || strings.Contains(string(state), `"handle"`) {
			return fmt.Errorf("recorded: %s %v", state, err)
		}
		left, err := filepath.Glob(filepath.Join(n.Root, "plugins/kubernetes.io/csi/*"))
		if err != nil || len(left) > 0 {
			return fmt.Errorf("directories: %v %v", left, err)
		}
		return nil
	})
}

// Device makes a volume that is a block device and begins with "from the host". It returns the file with what is
// written to the device.
func (d *CSIDriver) Device(id string) (file string) {
	t := d.n.T
	t.Helper()
	file = filepath.Join(d.n.Dir(), id+".img")
	if err := os.WriteFile(file, append([]byte("from the host\n"), make([]byte, 8<<20-14)...), 0o600); err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Stat(LoopDevice(t, file), &st); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mknod(filepath.Join(d.Dir, "volumes", id), unix.S_IFBLK|0o600, int(st.Rdev)); err != nil {
		t.Fatal(err)
	}
	return file
}

// BlockVolume is a volume of the driver that is a block device, and the claim that is bound to it.
func (d *CSIDriver) BlockVolume(name string) string {
	return strings.NewReplacer("NAME", name, "DRIVER",
		d.Name).Replace("---\napiVersion: v1\nkind: PersistentVolume\nmetadata: {name: NAME}\n"+
		"spec: {accessModes: [ReadWriteOnce], capacity: {storage: 8Mi}, volumeMode: Block, csi: {driver: DRIVER, "+
		"volumeHandle: NAME}}\n") +
		StorageClaim(name, "8Mi", "storageClassName: '', volumeName: "+name+", volumeMode: Block")
}

// InlineVolume returns the ID of the inline volume that has a class.
func (d *CSIDriver) InlineVolume(class string) string {
	d.n.T.Helper()
	for _, c := range d.Calls() {
		if c.Request.VolumeContext["class"] == class {
			return c.Request.VolumeID
		}
	}
	d.n.T.Fatalf("no inline volume of class %s was published", class)
	return ""
}

package e2e

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podstead/podstead/test/testbed"
)

// csiDriver is the CSI driver of test/csidriver, in a pod of the node.
type csiDriver struct {
	n    *node
	name string
	// dir is the directory that the driver shares with the test.
	dir string
}

// newCSIDriver returns a driver. Its pod is not started.
func (n *node) newCSIDriver(name string) *csiDriver {
	n.t.Helper()
	d := &csiDriver{n: n, name: name + ".csi.example.com", dir: filepath.Join(n.Dir(), "csi-"+name)}
	for _, dir := range []string{"volumes", "hang", "fail", "condition", "leave", "without"} {
		if err := os.MkdirAll(filepath.Join(d.dir, dir), 0o755); err != nil {
			n.t.Fatal(err)
		}
	}
	n.t.Cleanup(func() {
		entries, _ := os.ReadDir(filepath.Join(d.dir, "hang"))
		for _, e := range entries {
			_ = os.Remove(filepath.Join(d.dir, "hang", e.Name()))
		}
		if n.t.Failed() {
			n.t.Logf("calls of driver %s:\n%s", d.name, lastLines(filepath.Join(d.dir, "calls.jsonl"), 40))
		}
	})
	return d
}

// pod returns the manifest of the driver's pod.
func (d *csiDriver) pod() string {
	p := testbed.CSIDriverPod{Name: d.podName(), Driver: d.name, Dir: d.dir, Socket: d.socket(), Registered: d.socket(), Root: d.n.Root}
	return p.Manifest()
}

// socket is what the driver serves.
func (d *csiDriver) socket() string { return filepath.Join(d.n.Root, "plugins", d.name, "csi.sock") }

// podName returns the name of the pod that runs the driver.
func (d *csiDriver) podName() string { return strings.Split(d.name, ".")[0] + "-driver" }

// manifest returns the file name of the manifest of that pod.
func (d *csiDriver) manifest() string { return d.podName() + ".yaml" }

// start starts the driver's pod.
func (d *csiDriver) start() instance {
	d.n.t.Helper()
	d.n.writeManifest(d.manifest(), d.pod())
	return d.n.awaitRunning(d.podName())
}

// kill kills the driver, which its pod starts again.
func (d *csiDriver) kill(i instance) {
	d.n.t.Helper()
	if err := unix.Kill(i.Pid, unix.SIGKILL); err != nil {
		d.n.t.Fatal(err)
	}
}

// volume makes the directory of a volume.
func (d *csiDriver) volume(id string) string {
	d.n.t.Helper()
	dir := filepath.Join(d.dir, "volumes", id)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		d.n.t.Fatal(err)
	}
	return dir
}

// set writes a file by which the test controls the driver, and unset removes it.
func (d *csiDriver) set(file, content string) {
	d.n.t.Helper()
	if err := os.WriteFile(filepath.Join(d.dir, file), []byte(content), 0o644); err != nil {
		d.n.t.Fatal(err)
	}
}

// unset removes a file that set wrote.
func (d *csiDriver) unset(file string) {
	d.n.t.Helper()
	if err := os.Remove(filepath.Join(d.dir, file)); err != nil {
		d.n.t.Fatal(err)
	}
}

// csiCall is a call that the driver got.
type csiCall struct {
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

// calls returns the calls with which volumes are mounted and unmounted, by method and volume.
func (d *csiDriver) calls() []csiCall {
	d.n.t.Helper()
	f, err := os.Open(filepath.Join(d.dir, "calls.jsonl"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		d.n.t.Fatal(err)
	}
	defer f.Close()
	var found []csiCall
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var c csiCall
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
func (d *csiDriver) callsFor(id string) (found []string) {
	d.n.t.Helper()
	for _, c := range d.calls() {
		if c.Request.VolumeID == id && c.Method != "NodeGetVolumeStats" {
			found = append(found, strings.TrimSuffix(strings.TrimPrefix(c.Method, "Node"), "Volume"))
		}
	}
	return found
}

// mustHaveCalled fails the test unless these are all calls for a volume, without those that read.
func (d *csiDriver) mustHaveCalled(id string, want ...string) {
	d.n.t.Helper()
	if got := d.callsFor(id); !slices.Equal(got, want) {
		d.n.t.Errorf("the calls for volume %s are %v, want %v", id, got, want)
	}
}

// awaitCalls waits until the last calls for a volume are these, without those that read.
func (d *csiDriver) awaitCalls(id string, want ...string) {
	d.n.t.Helper()
	d.n.await(fmt.Sprintf("the last calls for volume %s are %v", id, want), func() error {
		got := d.callsFor(id)
		if !slices.Equal(got[max(0, len(got)-len(want)):], want) {
			return fmt.Errorf("calls: %v", got)
		}
		return nil
	})
}

// csiVolume is a volume of the driver, with further fields of its source and of its spec, and the claim
// that is bound to it.
func (d *csiDriver) csiVolume(name, source, more string) string {
	return fmt.Sprintf(`---
apiVersion: v1
kind: PersistentVolume
metadata: {name: %[1]s}
spec: {accessModes: [ReadWriteOnce], capacity: {storage: 1Gi}, csi: {driver: %[2]s, volumeHandle: %[1]s, %[3]s}, %[4]s}
`, name, d.name, source, more) + storageClaim(name, "1Gi", "storageClassName: '', volumeName: "+name)
}

// csiMounts returns what is mounted of CSI drivers on the node.
func (n *node) csiMounts() []string {
	n.t.Helper()
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		n.t.Fatal(err)
	}
	var found []string
	for line := range strings.Lines(string(data)) {
		point := strings.Fields(line)[4]
		if strings.HasPrefix(point, n.Root) && (strings.Contains(point, "kubernetes.io~csi") || strings.HasSuffix(point, "/globalmount")) {
			found = append(found, point)
		}
	}
	return found
}

// awaitNoCSI waits until nothing of CSI drivers is mounted or recorded.
func (n *node) awaitNoCSI() {
	n.t.Helper()
	n.await("nothing of CSI drivers is left", func() error {
		if found := n.csiMounts(); len(found) > 0 {
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

// A pod gets the volume of a CSI driver that runs as a pod of the node, and waits for a driver that is
// absent. The volume stays mounted over the end of podstead, of the driver and of the container, and is
// unmounted when the manifest is gone, also if podstead did not run then.
func TestCSIVolumes(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		d := n.newCSIDriver("disk")
		data := d.volume("data")
		n.writeManifest("app.yaml", claimPod("app", "data")+d.csiVolume("data", "", ""))
		n.start()
		n.awaitWaiting("app", "FailedMount", "CSI driver "+d.name+" is not registered", filepath.Join(n.Root, "plugins_registry"))
		driver := d.start()
		app := n.awaitRunning("app")
		d.awaitCalls("data", "Stage", "Publish")
		n.mustContain(app, map[string]string{"echo kept > /data/file; cat /data/file": "kept"})
		n.mustHaveFile(filepath.Join(data, "file"), "kept\n")
		if found := n.csiMounts(); len(found) != 2 {
			t.Errorf("mounted: %v", found)
		}

		// podstead is killed, and finds what is mounted; its pods and the driver go on.
		n.restart()
		n.mustStillRun("app", app)
		n.mustStillRun(d.podName(), driver)

		// The driver ends, and a container of the pod starts again without it.
		n.removeManifest(d.manifest())
		n.awaitGone(d.podName())
		if err := unix.Kill(app.Pid, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		app = n.awaitOther("app", app)
		n.mustContain(app, map[string]string{"cat /data/file": "kept"})
		d.awaitCalls("data", "Stage", "Publish")

		// The pod is removed while podstead and the driver are down: the driver is called as soon as it is back.
		shown := n.awaitReady("app")
		n.Kill()
		n.removeManifest("app.yaml")
		n.start()
		n.awaitGone("app")
		if found := n.csiMounts(); len(found) != 2 {
			t.Errorf("mounted without a driver that could unmount it: %v", found)
		}
		d.start()
		d.awaitCalls("data", "Stage", "Publish", "Unpublish", "Unstage")
		n.awaitPodDirGone(shown)
		n.awaitNoCSI()
		n.mustHaveFile(filepath.Join(data, "file"), "kept\n")
	})
}

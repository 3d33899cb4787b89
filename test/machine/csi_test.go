package machine

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/podstead/podstead/test/testbed"
)

const csiDir = "/root/csi"

// csiCalls returns the calls that the driver got for the volume, without those that read.
func csiCalls(m *Machine) (calls []string) {
	m.t.Helper()
	for line := range strings.Lines(m.Sh("cat " + csiDir + "/calls.jsonl")) {
		var call struct {
			Method  string
			Request struct {
				VolumeID string `json:"volume_id"`
			}
		}
		if err := json.Unmarshal([]byte(line), &call); err != nil {
			m.t.Fatalf("%v in %q", err, line)
		}
		if call.Request.VolumeID == "data" && call.Method != "NodeGetVolumeStats" {
			calls = append(calls, call.Method)
		}
	}
	return calls
}

// awaitCSI waits until the container has the volume of the driver with its content, and checks that it is mounted
// once for the node and once for the pod.
func awaitCSI(m *Machine, content string) {
	m.t.Helper()
	awaitReady(m, settle, "db", "disk-driver")
	m.Await("the container has the volume", settle, func() error {
		if out, err := m.Try("podstead exec db -- cat /data/file"); err != nil || out != content {
			return fmt.Errorf("%q, %v", out, err)
		}
		return nil
	})
	if out := m.Sh("grep -c 'kubernetes.io.csi' /proc/self/mountinfo"); out != "2" {
		m.t.Errorf("%s mounts of the volume:\n%s", out, m.Sh("grep kubernetes.io.csi /proc/self/mountinfo"))
	}
}

// The volume of a CSI driver is staged and published again after a boot and after a power cut, since nothing is mounted
// then, and its pod has what it had written. What a boot has ended is not left over if the pod is gone meanwhile.
func testCSIVolume(m *Machine) {
	t := m.t
	m.CopyIn(testbed.CSIDriver(), csiDir+"-driver", 0o755)
	m.Sh("rm -rf " + csiDir + " && mkdir -p " + csiDir + "/volumes/data")
	socket := "/var/lib/kubelet/plugins/disk.example.com/csi.sock"
	driver := testbed.CSIDriverPod{Name: "disk-driver", Driver: "disk.example.com", Dir: csiDir, Socket: socket,
		Registered: socket, Root: "/var/lib/kubelet"}
	m.Write("/etc/pods/driver.yaml", strings.ReplaceAll(driver.Manifest(), testbed.CSIDriver(), csiDir+"-driver"))
	m.Write("/etc/pods/storage.yaml", `apiVersion: v1
kind: PersistentVolume
metadata: {name: data}
spec: {accessModes: [ReadWriteOncePod], capacity: {storage: 1Gi}, csi: {driver: disk.example.com, volumeHandle: data}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOncePod], storageClassName: '', volumeName: data, resources: {requests: {storage: 1Gi}}}
`)
	apply(m, testPod{name: "db", revision: "1",
		spec:      ", volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]",
		container: ", volumeMounts: [{name: data, mountPath: /data}]"})
	awaitReady(m, settle, "db", "disk-driver")
	m.Sh("podstead exec db -- sh -c 'echo kept >/data/file; sync'")
	awaitCSI(m, "kept")
	for _, off := range []func(){m.Reboot, func() { m.PowerCut(); m.Start() }} {
		m.Sh(": >" + csiDir + "/calls.jsonl && sync")
		off()
		awaitCSI(m, "kept")
		if got := csiCalls(m); !slices.Equal(got, []string{"NodeStageVolume", "NodePublishVolume"}) {
			t.Errorf("calls after the boot: %v", got)
		}
	}

	// The pod is removed while podstead is down, and the driver is not there after the boot.
	m.Sh("systemctl stop podstead && mv /etc/pods/driver.yaml /root && rm /etc/pods/db.yaml && sync")
	m.PowerCut()
	m.Start()
	awaitInstances(m, nil, settle)
	m.Await("nothing of the volume is left", settle, func() error {
		if out := m.Sh("grep handle /var/lib/podstead/csi-volumes.json; grep kubernetes.io.csi /proc/self/mountinfo; ls -d " +
			"/var/lib/kubelet/pods/* /var/lib/kubelet/plugins/kubernetes.io/csi/* 2>/dev/null; true"); out != "" {
			return errors.New(out)
		}
		return nil
	})
	if out := m.Sh("cat " + csiDir + "/volumes/data/file"); out != "kept" {
		t.Errorf("the volume has %q", out)
	}
	m.Sh("rm /root/driver.yaml")
}

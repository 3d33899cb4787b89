package summary

import (
	"encoding/json"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/usage"
)

func sample(cores float64) usage.Usage {
	processes := uint64(3)
	return usage.Usage{
		At:        time.Unix(1000, 0).UTC(),
		CPU:       &usage.CPU{Total: 2 * time.Second, Rate: &cores},
		Memory:    &usage.Memory{Usage: 100, InactiveFile: 40, RSS: 20, Limit: 1000, PageFaults: 5, MajorPageFaults: 1},
		Processes: &processes,
	}
}

// pressure returns the pressure of all resources; the time is this many milliseconds.
func pressure(ms time.Duration) (list []usage.Pressure) {
	for _, resource := range []string{"cpu", "memory", "io"} {
		list = append(list, usage.Pressure{
			Resource: resource, Some: ms * time.Millisecond, Full: ms * time.Microsecond,
			SomeAverages: [3]float64{1, 0.75, 0.5}, FullAverages: [3]float64{2, 3, 4},
		})
	}
	return list
}

// The JSON is the kubelet's: readers know its names.
func TestSummary(t *testing.T) {
	fs := usage.Filesystem{At: time.Unix(1000, 0).UTC(), Capacity: 1000, Available: 400, Inodes: 100, InodesFree: 40,
		Used: 7, InodesUsed: 3}
	pod := &v1.Pod{}
	pod.UID = "u"
	pod.Spec.Volumes = []v1.Volume{{Name: "data",
		VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "claim"}}}}
	in := Input{
		NodeName: "n1",
		Node: &usage.Node{Usage: sample(0.5), Pods: sample(0.2), Daemon: sample(0.1), Runtime: sample(0.05),
			Misc: sample(0.05), SwapTotal: 10, MaxProcesses: 99, FS: &fs, ImageFS: &fs, ContainerFS: &fs,
			Interfaces: []usage.Interface{{Name: "eth0", RxBytes: 1, TxBytes: 2}}, BootedAt: time.Unix(500, 0).UTC()},
		Pods: &usage.Pods{Pods: []usage.Pod{
			{UID: "u", Name: "web", Namespace: "default", StartedAt: time.Unix(900, 0).UTC(), Usage: sample(0.25),
				Containers: []usage.Container{{Name: "a", ID: "1", CreatedAt: time.Unix(901, 0).UTC(), Usage: sample(0.125)}}}}},
		Disks: &usage.Disks{Pods: map[types.UID]*usage.PodDisk{"u": {
			Containers: []usage.ContainerDisk{{Name: "a", ID: "0", Logs: &fs}, {Name: "a", ID: "1", Rootfs: &fs}},
			Volumes: []usage.Volume{{Name: "data", Path: "/claim"}, {Name: "new", Path: "/not-measured"},
				{Name: "large", Path: "/large"}, {Name: "scratch", Ephemeral: true, Filesystem: fs}},
		}}},
		Claims:  usage.ClaimVolumes{"/claim": {Filesystem: fs}, "/large": {Filesystem: fs, Incomplete: true}},
		Traffic: map[types.UID][]usage.Interface{"u": {{Name: "eth0", RxBytes: 11, TxBytes: 22}}},
		Specs:   []*v1.Pod{pod},
		Pressure: &usage.Pressures{
			Node: pressure(1), Pods: pressure(2), ByPod: map[types.UID][]usage.Pressure{"u": pressure(3)},
			ByContainer: map[string][]usage.Pressure{"1": pressure(4)},
		},
	}
	data, err := json.Marshal(Make(in))
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]any{
		"node.nodeName": "n1", "node.startTime": "1970-01-01T00:08:20Z", "node.cpu.usageNanoCores": 5e8,
		"node.cpu.usageCoreNanoSeconds": 2e9,
		"node.memory.workingSetBytes":   60.0, "node.memory.availableBytes": 940.0, "node.memory.rssBytes": 20.0,
		"node.swap.swapUsageBytes":     0.0,
		"node.swap.swapAvailableBytes": 10.0, "node.fs.availableBytes": 400.0, "node.runtime.imageFs.usedBytes": 7.0,
		"node.runtime.containerFs.inodesUsed": 3.0,
		"node.rlimit.maxpid":                  99.0, "node.rlimit.curproc": 3.0, "node.network.name": "eth0",
		"node.network.interfaces.0.txBytes": 2.0,
		"node.systemContainers.0.name":      "pods", "node.systemContainers.1.name": "kubelet",
		"node.systemContainers.0.cpu.usageNanoCores": 2e8,
		"node.systemContainers.2.name":               "runtime", "node.systemContainers.3.name": "misc",
		"pods.0.podRef.name": "web", "pods.0.podRef.namespace": "default", "pods.0.podRef.uid": "u",
		"pods.0.startTime":          "1970-01-01T00:15:00Z",
		"pods.0.cpu.usageNanoCores": 25e7, "pods.0.process_stats.process_count": 3.0, "pods.0.network.rxBytes": 11.0,
		"pods.0.containers.0.name": "a", "pods.0.containers.0.cpu.usageNanoCores": 125e6,
		"pods.0.containers.0.memory.majorPageFaults": 1.0,
		"pods.0.containers.0.rootfs.usedBytes":       7.0, "pods.0.containers.0.logs.usedBytes": 7.0,
		"pods.0.volume.0.name": "data", "pods.0.volume.0.pvcRef.name": "claim", "pods.0.volume.0.capacityBytes": 1000.0,
		"node.cpu.psi.some.total": 1000.0, "node.memory.psi.full.avg60": 3.0, "node.io.psi.some.avg10": 1.0,
		"node.io.time": "1970-01-01T00:16:40Z",
		"node.systemContainers.0.memory.psi.some.total": 2000.0, "node.systemContainers.0.io.psi.full.total": 2.0,
		"node.systemContainers.1.io": nil,
		"pods.0.cpu.psi.some.total":  3000.0, "pods.0.io.psi.full.avg300": 4.0,
		"pods.0.containers.0.memory.psi.some.total": 4000.0, "pods.0.containers.0.io.psi.some.avg300": 0.5,
		"pods.0.volume.0.usedBytes": 7.0, "pods.0.volume.1.name": "large", "pods.0.volume.1.capacityBytes": 1000.0,
		"pods.0.volume.1.usedBytes": nil, "pods.0.volume.1.inodesUsed": nil,
		"pods.0.volume.2.name": "scratch", "pods.0.volume.2.pvcRef": nil,
		"pods.0.ephemeral-storage.usedBytes": 21.0, "pods.0.ephemeral-storage.inodesUsed": 9.0,
		"pods.0.ephemeral-storage.capacityBytes": 1000.0,
	} {
		if v := lookup(got, path); v != want {
			t.Errorf("%s is %v, want %v", path, v, want)
		}
	}
	in.Disks, in.Traffic = nil, nil
	only := Make(in)
	if only.Node.CPU.PSI == nil || only.Pods[0].Memory.PSI == nil || only.Node.IO != nil ||
		only.Pods[0].Containers[0].IO != nil {
		t.Errorf("pressure of processors and memory only: %+v", only)
	}
	in.Pressure = nil
	if without := Make(in); without.Node.CPU.PSI != nil || without.Pods[0].IO != nil {
		t.Errorf("without PSI: %+v", without)
	}
	if only.Node.Fs != nil || only.Node.Network != nil || only.Pods[0].VolumeStats != nil ||
		only.Pods[0].EphemeralStorage != nil || only.Node.CPU == nil || only.Pods[0].Containers[0].Memory == nil {
		t.Errorf("of processors and memory only: %+v", only)
	}
}

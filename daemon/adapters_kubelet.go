package daemon

import (
	"context"
	"path/filepath"
	"runtime"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/config"
	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/httpapi"
	"github.com/podstead/podstead/node/nodestatus"
	"github.com/podstead/podstead/supervisor/pleg"
)

// hostLogs is the directory that /logs/ serves.
const hostLogs = "/var/log"

// kubeletView serves the kubelet's own routes.
func kubeletView(o *config.Options, v2 bool, client *cri.Client, observer *pleg.PLEG) httpapi.Kubelet {
	return httpapi.Kubelet{
		Running: func() []v1.Pod { return runningPods(observer.Observed()) },
		Config: func(ctx context.Context) map[string]any {
			driver, err := driverSettings(&o.Cgroups).Choose(ctx, client.CgroupDriver, v2)
			if err != nil {
				driver = "" // the runtime is down
			}
			return o.KubeletConfiguration(config.RuntimeDefaults{CgroupDriver: string(driver), ParallelPulls: cri.DefaultParallelPulls})
		},
		MachineInfo: func() httpapi.MachineInfo {
			host, has := nodestatus.ReadHost("/"), nodeResources(o).Capacity()
			return httpapi.MachineInfo{
				Timestamp: time.Now(), Cores: runtime.NumCPU(), Memory: uint64(has.Memory().Value()),
				MachineID: host.MachineID, SystemUUID: host.SystemUUID, BootID: host.BootID, CloudProvider: "Unknown",
			}
		},
		LogRoot: hostLogs, Checkpoints: filepath.Join(o.Paths.Root, "checkpoints"), Profiling: o.Remote.Profiling,
		Checkpoint: client.Checkpoint,
	}
}

// runningPods returns the pods that run, as the runtime reports them.
func runningPods(o *cri.Observed) []v1.Pod {
	var out []v1.Pod
	for _, p := range o.Own {
		if !p.Running() {
			continue
		}
		var pod v1.Pod
		pod.Name, pod.Namespace, pod.UID = p.Name, p.Namespace, p.UID
		for _, c := range p.Containers {
			if c.State == cri.StateRunning {
				pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: c.Name, Image: c.Image})
			}
		}
		out = append(out, pod)
	}
	return out
}

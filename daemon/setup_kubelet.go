package daemon

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/config"
	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/httpapi"
	"github.com/podstead/podstead/httpapi/streaming"
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
			return o.KubeletConfiguration(
				config.RuntimeDefaults{CgroupDriver: string(driver), ParallelPulls: cri.DefaultParallelPulls})
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

// containerStreams opens sessions with containers over CRI.
type containerStreams struct {
	*cri.Client
	observer *pleg.PLEG
}

// Exec implements httpapi.ContainerStreams.
func (s containerStreams) Exec(ctx context.Context, id string, command []string, o streaming.Options) (string, error) {
	return s.Client.Exec(ctx, id, command, cri.Streams(o))
}

// Attach implements httpapi.ContainerStreams.
func (s containerStreams) Attach(ctx context.Context, id string, o streaming.Options) (string, error) {
	return s.Client.Attach(ctx, id, cri.Streams(o))
}

// Dial implements httpapi.ContainerStreams.
func (s containerStreams) Dial(ctx context.Context, pod types.UID, port uint16) (streaming.PortConn, error) {
	st, _ := s.observer.Status(pod)
	sandbox := st.ReadySandbox()
	if sandbox == nil {
		return nil, errors.New("the pod does not run any more")
	}
	return streaming.DialPort(ctx, s.Client, sandbox.ID, port)
}

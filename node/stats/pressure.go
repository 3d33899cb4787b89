package stats

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/usage"
	"github.com/podstead/podstead/node/cgroup"
)

// Pressure returns the pressure (PSI) of the node and of what runs on it, measured at most maxAge
// ago. That of pods and containers needs cgroup v2.
func (c *Collector) Pressure(ctx context.Context, maxAge time.Duration) (*usage.Pressures, error) {
	return c.pressure.get(ctx, maxAge, 0, c.measurePressure)
}

func (c *Collector) measurePressure(context.Context, *usage.Pressures) (*usage.Pressures, error) {
	p := &usage.Pressures{Node: cgroup.NodePressure(c.cfg.proc), ByPod: map[types.UID][]usage.Pressure{},
		ByContainer: map[string][]usage.Pressure{}}
	reader := c.cfg.Cgroups
	if reader == nil || !reader.V2() {
		return p, nil
	}
	for _, path := range cgroup.RootPaths(c.cfg.CgroupRoot) {
		if reader.Exists(path) {
			p.Pods = reader.Pressure(path)
			break
		}
	}
	observed := c.cfg.Observed()
	for i := range observed {
		pod := &observed[i]
		path := podCgroup(pod)
		if path == "" {
			continue
		}
		if list := reader.Pressure(path); list != nil {
			p.ByPod[pod.UID] = list
		}
		for j := range pod.Containers {
			container := &pod.Containers[j]
			if !container.Running {
				continue
			}
			if at := c.cgroupPaths.find(reader, path, container.ID); at != "" {
				p.ByContainer[container.ID] = reader.Pressure(at)
			}
		}
	}
	return p, nil
}

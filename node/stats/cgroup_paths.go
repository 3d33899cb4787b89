package stats

import (
	"sync"

	"github.com/podstead/podstead/node/cgroup"
)

// cgroupPaths caches the cgroup paths of containers and sandboxes by ID. Each
// runtime has its own layout, but never moves a cgroup.
type cgroupPaths struct {
	mu   sync.Mutex
	byID map[string]string
}

// podCgroup returns the path of a pod's own cgroup, empty if it has none.
func podCgroup(pod *ObservedPod) string {
	if pod.CgroupParent == "" {
		return ""
	}
	return cgroup.Path(pod.CgroupParent)
}

// find returns the path of a container's or sandbox's cgroup. It is empty if the
// cgroup is not on this kernel, or not where any known runtime creates it.
func (p *cgroupPaths) find(r *cgroup.Reader, pod, id string) string {
	if r == nil {
		return ""
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if path, ok := p.byID[id]; ok {
		return path
	}
	for _, path := range candidatePaths(pod, id) {
		if r.Exists(path) {
			p.byID[id] = path
			return path
		}
	}
	return ""
}

// candidatePaths lists where runtimes create the cgroup of a container:
// containerd and CRI-O, with either driver, in the pod's cgroup or, for a pod
// without one, in the runtime's default place.
func candidatePaths(pod, id string) []string {
	if pod != "" {
		return []string{
			pod + "/" + id, pod + "/cri-containerd-" + id + ".scope",
			pod + "/crio-" + id + ".scope", pod + "/crio-" + id,
		}
	}
	return []string{
		"/k8s.io/" + id, "/system.slice/cri-containerd-" + id + ".scope",
		"/system.slice/crio-" + id + ".scope", "/pod.slice/crio-" + id + ".scope",
	}
}

// retain drops the paths of containers and sandboxes that are not observed.
func (p *cgroupPaths) retain(pods []ObservedPod) {
	present := map[string]bool{}
	for i := range pods {
		present[pods[i].SandboxID] = true
		for j := range pods[i].Containers {
			present[pods[i].Containers[j].ID] = true
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for id := range p.byID {
		if !present[id] {
			delete(p.byID, id)
		}
	}
}

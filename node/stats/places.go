package stats

import (
	"sync"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/node/cgroup"
)

// places are where the cgroups of containers and sandboxes are, by ID. A
// runtime makes them in ways of its own, but never moves one.
type places struct {
	mu   sync.Mutex
	byID map[string]string
}

// podPath is the cgroup of a pod, empty if it has none of its own.
func podPath(pod *cri.Pod) string {
	if len(pod.Sandboxes) == 0 {
		return ""
	}
	parent := pod.Sandboxes[0].CgroupParent()
	if parent == "" {
		return ""
	}
	return cgroup.Path(parent)
}

// find is the path of a container's cgroup or a sandbox's, empty if it is not
// on this kernel, or not where any known runtime puts it.
func (p *places) find(r *cgroup.Reader, pod, id string) string {
	if r == nil {
		return ""
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if path, ok := p.byID[id]; ok {
		return path
	}
	for _, path := range candidates(pod, id) {
		if r.Exists(path) {
			p.byID[id] = path
			return path
		}
	}
	return ""
}

// candidates are where runtimes put the cgroup of a container: containerd and
// CRI-O, with either driver, in the pod's cgroup or, of a pod without one,
// where it is by default.
func candidates(pod, id string) []string {
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

// keep forgets all but those of pods that are there.
func (p *places) keep(pods []*cri.Pod) {
	there := map[string]bool{}
	for _, pod := range pods {
		for i := range pod.Sandboxes {
			there[pod.Sandboxes[i].ID] = true
		}
		for i := range pod.Containers {
			there[pod.Containers[i].ID] = true
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for id := range p.byID {
		if !there[id] {
			delete(p.byID, id)
		}
	}
}

package daemon

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/node/nodestatus"
	"github.com/podstead/podstead/node/stats"
)

// observedPods shows node/stats what the runtime has. It makes two lists, which
// the measurement discards.
func observedPods(o *cri.Observed) []stats.ObservedPod {
	count := 0
	for _, pod := range o.Own {
		count += len(pod.Containers)
	}
	pods, containers := make([]stats.ObservedPod, len(o.Own)), make([]stats.ObservedContainer, 0, count)
	for i, pod := range o.Own {
		p := &pods[i]
		p.UID, p.Name, p.Namespace = pod.UID, pod.Name, pod.Namespace
		if len(pod.Sandboxes) > 0 {
			s := &pod.Sandboxes[0]
			p.SandboxID, p.SandboxReady, p.SandboxCreatedAt, p.CgroupParent = s.ID, s.Ready, s.CreatedAt, s.CgroupParent()
		}
		first := len(containers)
		for j := range pod.Containers {
			c := &pod.Containers[j]
			containers = append(containers, stats.ObservedContainer{Name: c.Name, ID: c.ID, CreatedAt: c.CreatedAt, Running: c.State == cri.StateRunning})
		}
		p.Containers = containers[first:len(containers):len(containers)]
	}
	return pods
}

// runtimeInventory is the client as node/nodestatus asks it.
type runtimeInventory struct{ client *cri.Client }

// Features implements nodestatus.Runtime.
func (r runtimeInventory) Features(ctx context.Context) (f nodestatus.Features, err error) {
	can, err := r.client.Capabilities(ctx)
	if err != nil {
		return f, err
	}
	if can.Features != nil {
		policy := can.Features.GetSupplementalGroupsPolicy()
		f.SupplementalGroupsPolicy = &policy
	}
	for name, h := range can.Handlers {
		readOnly, users := h.GetRecursiveReadOnlyMounts(), h.GetUserNamespaces()
		f.Handlers = append(f.Handlers, v1.NodeRuntimeHandler{
			Name: name, Features: &v1.NodeRuntimeHandlerFeatures{RecursiveReadOnlyMounts: &readOnly, UserNamespaces: &users},
		})
	}
	return f, nil
}

// Images implements nodestatus.Runtime.
func (r runtimeInventory) Images(ctx context.Context) ([]nodestatus.Image, error) {
	stored, err := r.client.StoredImages(ctx)
	if err != nil {
		return nil, err
	}
	images := make([]nodestatus.Image, len(stored))
	for i := range stored {
		images[i] = nodestatus.Image{Tags: stored[i].Tags, Digests: stored[i].Digests, Size: stored[i].Size}
	}
	return images, nil
}

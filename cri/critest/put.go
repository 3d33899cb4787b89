package critest

import (
	"maps"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstead/podstead/cri"
)

// Pod is a pod that is put into the runtime without CRI calls.
type Pod struct {
	UID, Name, Namespace string
	// Instance is the value of cri.LabelInstance; empty leaves the label out,
	// as with a kubelet's pod.
	Instance string
	// Bare leaves out the labels of Kubernetes too: another tool's sandbox.
	Bare        bool
	Labels      map[string]string
	Annotations map[string]string
	Containers  []string
}

// Put puts a pod with a ready sandbox and running containers into the runtime
// and returns the sandbox's ID.
func (f *Fake) Put(p Pod) string {
	labels := map[string]string{}
	maps.Copy(labels, p.Labels)
	if !p.Bare {
		labels[cri.LabelPodUID], labels[cri.LabelPodName], labels[cri.LabelPodNamespace] = p.UID, p.Name, p.Namespace
	}
	if p.Instance != "" {
		labels[cri.LabelInstance] = p.Instance
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	b := &sandbox{id: f.newID(), created: f.now(), foreign: p.Instance != Instance, ips: []string{f.newIP()},
		config: &runtimeapi.PodSandboxConfig{
			Metadata:    &runtimeapi.PodSandboxMetadata{Name: p.Name, Namespace: p.Namespace, Uid: p.UID},
			Labels:      labels,
			Annotations: p.Annotations,
		}}
	b.name = sandboxName(b.config.Metadata)
	f.names[b.name] = b.id
	f.sandboxes[b.id] = b
	f.setReady(b, true)
	f.emit(runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT, b.id, b)
	for _, name := range p.Containers {
		f.putContainer(b, name, labels)
	}
	return b.id
}

func (f *Fake) putContainer(b *sandbox, name string, podLabels map[string]string) {
	labels := maps.Clone(podLabels)
	if len(labels) > 0 {
		labels[cri.LabelContainerName] = name
	}
	c := &container{
		id: f.newID(), sandbox: b, created: f.now(), started: f.now(), exited: make(chan struct{}),
		image: f.images.add("foreign"),
		config: &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: name},
			Image:    &runtimeapi.ImageSpec{Image: "foreign"},
			Labels:   labels,
		},
	}
	c.name = containerReserved(c.config.Metadata, b.config.Metadata)
	f.names[c.name] = c.id
	f.containers[c.id] = c
	b.members = append(b.members, c)
	f.setState(c, runtimeapi.ContainerState_CONTAINER_RUNNING)
	f.emit(runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT, c.id, b)
}

// StopPod stops all sandboxes of a UID, as the client that created them would.
func (f *Fake) StopPod(uid string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, b := range f.sandboxes {
		if b.config.GetMetadata().GetUid() == uid {
			f.stopSandbox(b)
		}
	}
}

// EndPod stops and removes all sandboxes of a UID, as the client that created
// them would.
func (f *Fake) EndPod(uid string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, b := range f.sandboxes {
		if b.config.GetMetadata().GetUid() == uid {
			f.stopSandbox(b)
			f.removeSandbox(b)
		}
	}
}

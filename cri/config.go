package cri

import (
	"encoding/json"
	"maps"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstead/podstead/internal/cgroupvalues"
	podinfo "github.com/podstead/podstead/internal/pod"
)

// annotationPorts is the kubelet's key for a container's ports as JSON.
const annotationPorts = "io.kubernetes.container.ports"

// config generates the configs of sandboxes and containers. Its methods are pure, apart from what
// Assigned reports when they are called.
type config struct {
	instance string
	logRoot  string
	// memory is the host's in bytes, for oom_score_adj.
	memory int64
	masked []string
	// security is the node's part of security contexts.
	security Security
	cgroup   cgroupvalues.Settings
}

// sandbox returns the config of a pod's sandbox. The config passed with a
// container must be the one that the sandbox was created with, so attempt is the
// sandbox's own.
func (g config) sandbox(pod *v1.Pod, attempt uint32, in SandboxInputs) *runtimeapi.PodSandboxConfig {
	return &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{
			Name: pod.Name, Namespace: pod.Namespace, Uid: string(pod.UID), Attempt: attempt,
		},
		Hostname:     in.Hostname,
		LogDirectory: LogDirectory(g.logRoot, pod.Namespace, pod.Name, pod.UID),
		DnsConfig:    dnsConfig(in.DNS),
		PortMappings: portMappings(pod),
		Labels:       g.sandboxLabels(pod),
		Annotations:  sandboxAnnotations(pod, in),
		Linux: &runtimeapi.LinuxPodSandboxConfig{
			CgroupParent:    in.CgroupParent,
			SecurityContext: sandboxSecurity(pod, in.Users),
			Sysctls:         sysctls(pod),
			Resources:       g.podResources(pod),
			Overhead:        g.podOverhead(pod),
		},
	}
}

// containerInput is what the config of one instance is generated from, in
// addition to the pod and the container's spec.
type containerInput struct {
	Inputs
	restartCount int
	// attempt is the number in the container's name; 0 is restartCount.
	attempt int
	// command and args are expanded.
	command, args []string
	imageRef      string
	user          user
	assigned      Assigned
	// users is that of the sandbox.
	users *UserNamespace
	// target is the container whose processes it sees; empty for those that the
	// pod's spec specifies.
	target string
}

// container returns the config of one instance of a container.
func (g config) container(pod *v1.Pod, c *v1.Container, in containerInput) *runtimeapi.ContainerConfig {
	return &runtimeapi.ContainerConfig{
		Metadata:    &runtimeapi.ContainerMetadata{Name: c.Name, Attempt: uint32(max(in.attempt, in.restartCount))},
		Image:       &runtimeapi.ImageSpec{Image: in.imageRef, UserSpecifiedImage: c.Image},
		Command:     in.command,
		Args:        in.args,
		WorkingDir:  c.WorkingDir,
		Envs:        environment(in.Env),
		Mounts:      idMapped(mounts(c, in.Inputs), in.users),
		Devices:     deviceNodes(in.Devices),
		CDIDevices:  cdiDevices(in.CDIDevices),
		Labels:      g.containerLabels(pod, c),
		Annotations: containerAnnotations(pod, c, in),
		LogPath:     LogPath(c.Name, in.restartCount),
		Stdin:       c.Stdin,
		StdinOnce:   c.StdinOnce,
		Tty:         c.TTY,
		StopSignal:  stopSignal(c),
		Linux: &runtimeapi.LinuxContainerConfig{
			Resources:       g.containerResources(pod, c, in.assigned),
			SecurityContext: g.containerSecurity(pod, c, in),
		},
	}
}

// sandboxAnnotations returns the pod's annotations, as far as they are passed on, and the path of its cgroup if
// it has one.
func sandboxAnnotations(pod *v1.Pod, in SandboxInputs) map[string]string {
	annotations, _ := passed(pod.Annotations)
	if in.CgroupParent == "" {
		delete(annotations, AnnotationCgroupParent)
		return annotations
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[AnnotationCgroupParent] = in.CgroupParent
	return annotations
}

func (g config) sandboxLabels(pod *v1.Pod) map[string]string {
	labels, _ := passed(pod.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, g.identity(pod))
	return labels
}

func (g config) containerLabels(pod *v1.Pod, c *v1.Container) map[string]string {
	labels := g.identity(pod)
	labels[LabelContainerName] = c.Name
	return labels
}

// identity returns the labels by which a later daemon identifies the pod of an
// object.
func (g config) identity(pod *v1.Pod) map[string]string {
	return map[string]string{
		LabelPodName:      pod.Name,
		LabelPodNamespace: pod.Namespace,
		LabelPodUID:       string(pod.UID),
		LabelInstance:     g.instance,
	}
}

func containerAnnotations(pod *v1.Pod, c *v1.Container, in containerInput) map[string]string {
	annotations := maps.Clone(in.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[AnnotationContainerHash] = Hash(c)
	annotations[AnnotationResources] = resourcesIn(pod, c).text()
	annotations[AnnotationRestartCount] = strconv.Itoa(in.restartCount)
	annotations[AnnotationTerminationPolicy] = string(c.TerminationMessagePolicy)
	// A message is read from the file on the host, so that nothing here needs the path.
	if len(c.TerminationMessagePath) <= maxPathStored {
		annotations[AnnotationTerminationMessagePath] = c.TerminationMessagePath
	}
	if s := pod.Spec.TerminationGracePeriodSeconds; s != nil {
		annotations[AnnotationTerminationGracePeriod] = strconv.FormatInt(*s, 10)
	}
	if in.TerminationMessageHost != "" {
		annotations[AnnotationTerminationMessageHost] = in.TerminationMessageHost
	}
	left := hookAnnotations(annotations, pod, c)
	if in.Objects != "" {
		annotations[AnnotationObjects] = in.Objects
	}
	if len(c.Ports) > 0 {
		if text, err := json.Marshal(c.Ports); err == nil && len(text) < min(left, maxRecovered) {
			annotations[annotationPorts] = string(text)
		}
	}
	return annotations
}

// dnsConfig is the resolv.conf that the runtime writes; nil leaves it to the
// runtime.
func dnsConfig(dns DNS) *runtimeapi.DNSConfig {
	if len(dns.Servers)+len(dns.Searches)+len(dns.Options) == 0 {
		return nil
	}
	return &runtimeapi.DNSConfig{Servers: dns.Servers, Searches: dns.Searches, Options: dns.Options}
}

// portMappings returns the ports of regular containers and sidecars. Ports
// without a host port are included, as with the kubelet; a runtime maps none for
// them.
func portMappings(pod *v1.Pod) []*runtimeapi.PortMapping {
	var all []*runtimeapi.PortMapping
	add := func(c *v1.Container) {
		for _, p := range c.Ports {
			all = append(all, &runtimeapi.PortMapping{
				Protocol:      protocol(p.Protocol),
				ContainerPort: p.ContainerPort,
				HostPort:      p.HostPort,
				HostIp:        p.HostIP,
			})
		}
	}
	for i := range pod.Spec.Containers {
		add(&pod.Spec.Containers[i])
	}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; podinfo.IsSidecar(c) {
			add(c)
		}
	}
	return all
}

func protocol(p v1.Protocol) runtimeapi.Protocol {
	switch p {
	case v1.ProtocolUDP:
		return runtimeapi.Protocol_UDP
	case v1.ProtocolSCTP:
		return runtimeapi.Protocol_SCTP
	}
	return runtimeapi.Protocol_TCP
}

// stopSignal returns the signal that asks the container to exit; the zero value
// leaves it to the image. Which runtimes support it is in fieldSupports.
func stopSignal(c *v1.Container) runtimeapi.Signal {
	if c.Lifecycle == nil || c.Lifecycle.StopSignal == nil {
		return runtimeapi.Signal_RUNTIME_DEFAULT
	}
	name := strings.NewReplacer("+", "PLUS", "-", "MINUS").Replace(string(*c.Lifecycle.StopSignal))
	return runtimeapi.Signal(runtimeapi.Signal_value[name])
}

// apiSignal returns the API's name of a signal, empty for none and for one that
// this version of CRI does not define.
func apiSignal(s runtimeapi.Signal) v1.Signal {
	name, known := runtimeapi.Signal_name[int32(s)]
	if !known || s == runtimeapi.Signal_RUNTIME_DEFAULT {
		return ""
	}
	return v1.Signal(strings.NewReplacer("PLUS", "+", "MINUS", "-").Replace(name))
}

// environment keeps the order in which the variables were resolved; the kubelet's
// is random.
func environment(env []EnvVar) []*runtimeapi.KeyValue {
	out := make([]*runtimeapi.KeyValue, 0, len(env))
	for _, e := range env {
		out = append(out, &runtimeapi.KeyValue{Key: e.Name, Value: []byte(e.Value)})
	}
	return out
}

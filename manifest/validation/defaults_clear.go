package validation

import (
	"reflect"

	v1 "k8s.io/api/core/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// ClearDefaults removes every field from a spec that SetDefaults sets, whatever
// its value, except the resources of the pod. A test compares the two: if a
// field were defaulted and not cleared, writing the default out would change
// the identity of a pod.
func ClearDefaults(spec *v1.PodSpec) {
	spec.DNSPolicy = ""
	spec.RestartPolicy = ""
	spec.SchedulerName = ""
	spec.EnableServiceLinks = nil
	spec.TerminationGracePeriodSeconds = nil
	spec.DeprecatedServiceAccount = ""
	if spec.SecurityContext != nil && isEmptyValue(reflect.ValueOf(spec.SecurityContext)) {
		spec.SecurityContext = nil
	}
	for i := range spec.Volumes {
		clearVolume(&spec.Volumes[i].VolumeSource)
	}
	for c := range podinfo.EachContainer(spec, podinfo.SpecContainers) {
		clearContainer(c)
	}
	for c := range podinfo.EachContainer(spec, podinfo.EphemeralContainers) {
		requests := c.Resources.Requests
		clearContainer(c)
		c.Resources.Requests = requests
	}
}

// ClearPodResources removes the resources of the pod that SetDefaults computes
// from those of its containers.
func ClearPodResources(spec *v1.PodSpec) {
	if spec.Resources == nil {
		return
	}
	spec.Resources.Requests = nil
	for name := range spec.Resources.Limits {
		if isHugePages(name) {
			delete(spec.Resources.Limits, name)
		}
	}
}

func clearContainer(c *v1.Container) {
	c.ImagePullPolicy = ""
	c.TerminationMessagePath = ""
	c.TerminationMessagePolicy = ""
	c.Resources.Requests = nil
	for i := range c.Ports {
		c.Ports[i].Protocol = ""
		c.Ports[i].HostPort = 0
	}
	for i := range c.Env {
		if source := c.Env[i].ValueFrom; source != nil {
			clearFieldRef(source.FieldRef)
			if source.FileKeyRef != nil {
				source.FileKeyRef.Optional = nil
			}
		}
	}
	for _, probe := range []*v1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		clearProbe(probe)
	}
	if c.Lifecycle != nil {
		for _, hook := range []*v1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
			if hook != nil {
				clearHTTPGet(hook.HTTPGet)
			}
		}
	}
}

func clearProbe(probe *v1.Probe) {
	if probe == nil {
		return
	}
	probe.TimeoutSeconds = 0
	probe.PeriodSeconds = 0
	probe.SuccessThreshold = 0
	probe.FailureThreshold = 0
	clearHTTPGet(probe.HTTPGet)
	if probe.GRPC != nil {
		probe.GRPC.Service = nil
	}
}

func clearHTTPGet(get *v1.HTTPGetAction) {
	if get != nil {
		get.Path = ""
		get.Scheme = ""
	}
}

func clearFieldRef(ref *v1.ObjectFieldSelector) {
	if ref != nil {
		ref.APIVersion = ""
	}
}

func clearVolume(source *v1.VolumeSource) {
	if s := source.EmptyDir; s != nil && *s == (v1.EmptyDirVolumeSource{}) {
		source.EmptyDir = nil
	}
	if s := source.HostPath; s != nil {
		s.Type = nil
	}
	if s := source.Secret; s != nil {
		s.DefaultMode = nil
	}
	if s := source.ConfigMap; s != nil {
		s.DefaultMode = nil
	}
	if s := source.DownwardAPI; s != nil {
		s.DefaultMode = nil
		clearDownwardItems(s.Items)
	}
	if s := source.Projected; s != nil {
		s.DefaultMode = nil
		for i := range s.Sources {
			if p := s.Sources[i].DownwardAPI; p != nil {
				clearDownwardItems(p.Items)
			}
			if p := s.Sources[i].ServiceAccountToken; p != nil {
				p.ExpirationSeconds = nil
			}
		}
	}
	if s := source.Image; s != nil {
		s.PullPolicy = ""
	}
	if s := source.Ephemeral; s != nil && s.VolumeClaimTemplate != nil {
		s.VolumeClaimTemplate.Spec.VolumeMode = nil
	}
	clearNetworkVolume(source)
}

func clearDownwardItems(items []v1.DownwardAPIVolumeFile) {
	for i := range items {
		clearFieldRef(items[i].FieldRef)
	}
}

func clearNetworkVolume(source *v1.VolumeSource) {
	if s := source.ISCSI; s != nil {
		s.ISCSIInterface = ""
	}
	if s := source.RBD; s != nil {
		s.RBDPool = ""
		s.RadosUser = ""
		s.Keyring = ""
	}
	if s := source.AzureDisk; s != nil {
		s.CachingMode = nil
		s.FSType = nil
		s.ReadOnly = nil
		s.Kind = nil
	}
	if s := source.ScaleIO; s != nil {
		s.StorageMode = ""
		s.FSType = ""
	}
}

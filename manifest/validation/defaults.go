package validation

import (
	"github.com/distribution/reference"
	v1 "k8s.io/api/core/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// SetDefaults sets every field of the pod that has an API default (v1.36) and
// is not set. Like the API server's conversion it also normalizes two fields:
// serviceAccount and serviceAccountName have the same value, and a negative
// grace period means 1 second. It is idempotent.
func SetDefaults(pod *v1.Pod) {
	spec := &pod.Spec
	// Requests come first, from what the author wrote: the pod-level ones sum
	// up the containers' before any rounding.
	for c := range podinfo.EachContainer(spec, podinfo.SpecContainers) {
		defaultRequests(&c.Resources)
	}
	defaultPodResources(spec)

	defaultPodSpec(spec)
	for i := range spec.Volumes {
		defaultVolume(&spec.Volumes[i])
	}
	for c := range podinfo.EachContainer(spec, podinfo.SpecContainers) {
		defaultContainer(c, spec.HostNetwork)
	}
	for c := range podinfo.EachContainer(spec, podinfo.EphemeralContainers) {
		// The ports of an ephemeral container cannot be set, so that there is
		// nothing to default for the host network.
		defaultContainer(c, false)
	}
}

func defaultPodSpec(spec *v1.PodSpec) {
	setDefault(&spec.DNSPolicy, v1.DNSClusterFirst)
	setDefault(&spec.RestartPolicy, v1.RestartPolicyAlways)
	setDefault(&spec.SchedulerName, v1.DefaultSchedulerName)
	setDefaultPtr(&spec.SecurityContext, v1.PodSecurityContext{})
	setDefaultPtr(&spec.EnableServiceLinks, v1.DefaultEnableServiceLinks)
	setDefaultPtr(&spec.TerminationGracePeriodSeconds, v1.DefaultTerminationGracePeriodSeconds)
	if *spec.TerminationGracePeriodSeconds < 0 {
		*spec.TerminationGracePeriodSeconds = 1
	}
	setDefault(&spec.ServiceAccountName, spec.DeprecatedServiceAccount)
	spec.DeprecatedServiceAccount = spec.ServiceAccountName
	roundUp(spec.Overhead)
}

func defaultContainer(c *v1.Container, hostNetwork bool) {
	setDefault(&c.ImagePullPolicy, defaultPullPolicy(c.Image))
	setDefault(&c.TerminationMessagePath, v1.TerminationMessagePathDefault)
	setDefault(&c.TerminationMessagePolicy, v1.TerminationMessageReadFile)
	for i := range c.Ports {
		port := &c.Ports[i]
		setDefault(&port.Protocol, v1.ProtocolTCP)
		if hostNetwork {
			setDefault(&port.HostPort, port.ContainerPort)
		}
	}
	for i := range c.Env {
		defaultEnvSource(c.Env[i].ValueFrom)
	}
	roundUp(c.Resources.Limits)
	roundUp(c.Resources.Requests)
	for _, probe := range []*v1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		defaultProbe(probe)
	}
	if c.Lifecycle != nil {
		for _, hook := range []*v1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
			if hook != nil {
				defaultHTTPGet(hook.HTTPGet)
			}
		}
	}
}

// defaultPullPolicy returns Always for an image that can change under its name:
// tag latest, or neither tag nor digest. A name that cannot be parsed gets
// IfNotPresent, as in the API server; pulling it fails later with a reason.
func defaultPullPolicy(image string) v1.PullPolicy {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return v1.PullIfNotPresent
	}
	if tagged, ok := named.(reference.Tagged); ok && tagged.Tag() == "latest" || reference.IsNameOnly(named) {
		return v1.PullAlways
	}
	return v1.PullIfNotPresent
}

func defaultEnvSource(source *v1.EnvVarSource) {
	if source == nil {
		return
	}
	defaultFieldRef(source.FieldRef)
	if source.FileKeyRef != nil {
		setDefaultPtr(&source.FileKeyRef.Optional, false)
	}
}

func defaultFieldRef(ref *v1.ObjectFieldSelector) {
	if ref != nil {
		setDefault(&ref.APIVersion, "v1")
	}
}

func defaultProbe(probe *v1.Probe) {
	if probe == nil {
		return
	}
	setDefault(&probe.TimeoutSeconds, 1)
	setDefault(&probe.PeriodSeconds, 10)
	setDefault(&probe.SuccessThreshold, 1)
	setDefault(&probe.FailureThreshold, 3)
	defaultHTTPGet(probe.HTTPGet)
	if probe.GRPC != nil {
		setDefaultPtr(&probe.GRPC.Service, "")
	}
}

func defaultHTTPGet(get *v1.HTTPGetAction) {
	if get != nil {
		setDefault(&get.Path, "/")
		setDefault(&get.Scheme, v1.URISchemeHTTP)
	}
}

// setDefault sets a field that has its zero value to its default.
func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// setDefaultPtr gives an optional field that is absent its default.
func setDefaultPtr[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

package cri

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// fieldSupport is a field of a pod that not every runtime honours. CRI is
// protobuf: a runtime that does not know a field of a request drops it without
// a word. So a pod that asks for such a field waits until it is proven that the
// runtime does what it says, by a feature that the runtime reports or, where
// there is none, by its name and version.
//
// To add one: a row in fieldSupports, which TestSupport then demands cases for.
type fieldSupport struct {
	// asked are the paths at which a pod asks for it, such as
	// spec.containers[0].lifecycle.stopSignal; none if it does not.
	requestedAt func(pod *v1.Pod) []string
	// feature is what the runtime reports of itself; nil if it reports nothing
	// of the kind. Once it says yes, since is not looked at.
	feature func(Capabilities) bool
	// ofHandler is the same for what it reports of the handler that the pod gets.
	handlerFeature func(*runtimeapi.RuntimeHandlerFeatures) bool
	// since is, by the runtime's name as its Version call gives it, the first
	// version that honours the field. A runtime that is not in it has to
	// report the feature. It is what people are told to install, so that it is
	// filled in beside a feature, too.
	since map[string]string
	// told is what people are told to install where no version will do.
	requirement string
}

// Names of runtimes in their Version calls.
const (
	containerd = "containerd"
	crio       = "cri-o"
)

// fieldSupports is the one table of what depends on the runtime.
var fieldSupports = []fieldSupport{
	{
		// ContainerConfig.stop_signal, CRI of Kubernetes 1.33. containerd's
		// server reads it in 2.3 and not in 2.2; CRI-O's release notes name it
		// in 1.33. No feature of Status tells.
		requestedAt: containerField("lifecycle.stopSignal", func(c *v1.Container) bool {
			return c.Lifecycle != nil && c.Lifecycle.StopSignal != nil
		}),
		since: map[string]string{containerd: "2.3", crio: "1.33"},
	},
	{
		// Mount.image, CRI of Kubernetes 1.31: release notes of containerd
		// 2.1 and CRI-O 1.31.
		requestedAt: imageVolumes,
		since:       map[string]string{containerd: "2.1", crio: "1.31"},
	},
	{
		// Mount.image_sub_path, CRI of Kubernetes 1.33. containerd 2.1 mounts
		// the whole image (containerd/containerd#11578).
		requestedAt: mountField("subPath", partOfImage),
		since:       map[string]string{containerd: "2.2", crio: "1.33"},
	},
	{
		// Mount.recursive_read_only, CRI of Kubernetes 1.30. It needs more
		// than the runtime: the version proves nothing.
		requestedAt: mountField("recursiveReadOnly", func(_ *v1.Pod, m *v1.VolumeMount) bool {
			return m.RecursiveReadOnly != nil && *m.RecursiveReadOnly == v1.RecursiveReadOnlyEnabled
		}),
		handlerFeature: (*runtimeapi.RuntimeHandlerFeatures).GetRecursiveReadOnlyMounts,
		requirement:    "a runtime that reports the feature, as containerd 2.0 and cri-o 1.30 do with runc 1.1 or crun 1.8.6 on Linux 5.12",
	},
	{
		// supplemental_groups_policy, CRI of Kubernetes 1.31.
		requestedAt: podField("securityContext.supplementalGroupsPolicy", func(s *v1.PodSpec) bool {
			return s.SecurityContext != nil && s.SecurityContext.SupplementalGroupsPolicy != nil &&
				*s.SecurityContext.SupplementalGroupsPolicy == v1.SupplementalGroupsPolicyStrict
		}),
		feature: func(k Capabilities) bool { return k.Features.GetSupplementalGroupsPolicy() },
		since:   map[string]string{containerd: "2.0", crio: "1.32"},
	},
	{
		// UserNamespace and the mappings of mounts, CRI of Kubernetes 1.25 and
		// 1.27. The runtime's version is half of it: runc or crun has to map
		// the owners of mounts as well.
		requestedAt:    podField("hostUsers", func(s *v1.PodSpec) bool { return s.HostUsers != nil && !*s.HostUsers }),
		handlerFeature: (*runtimeapi.RuntimeHandlerFeatures).GetUserNamespaces,
		requirement:    "a runtime handler that reports user namespaces, such as containerd 2.0 or CRI-O 1.25 or later with runc 1.2 or crun 1.9 or later",
	},
}

// podField is the path of a field of the pod's spec, if it is asked for.
func podField(path string, asks func(*v1.PodSpec) bool) func(*v1.Pod) []string {
	return func(pod *v1.Pod) []string {
		if !asks(&pod.Spec) {
			return nil
		}
		return []string{"spec." + path}
	}
}

// containerField are the paths of a field in the init and regular containers
// that ask for it.
func containerField(path string, asks func(*v1.Container) bool) func(*v1.Pod) []string {
	return func(pod *v1.Pod) (paths []string) {
		for i := range pod.Spec.InitContainers {
			if asks(&pod.Spec.InitContainers[i]) {
				paths = append(paths, fmt.Sprintf("spec.initContainers[%d].%s", i, path))
			}
		}
		for i := range pod.Spec.Containers {
			if asks(&pod.Spec.Containers[i]) {
				paths = append(paths, fmt.Sprintf("spec.containers[%d].%s", i, path))
			}
		}
		return paths
	}
}

// Capabilities is what a runtime says of itself.
type Capabilities struct {
	Version
	// Features are the runtime's, nil if it reports none.
	Features *runtimeapi.RuntimeFeatures
	// Handlers are the features of its runtime handlers by name, the default
	// one's under "".
	Handlers map[string]*runtimeapi.RuntimeHandlerFeatures
}

// Capabilities asks for the runtime's version and features.
func (c *Client) Capabilities(ctx context.Context) (Capabilities, error) {
	v, err := c.Version(ctx)
	if err != nil {
		return Capabilities{}, err
	}
	a, err := read(ctx, c, operation{verb: "ask for the runtime's features"}, runtimeapi.RuntimeServiceClient.Status, &runtimeapi.StatusRequest{})
	if err != nil {
		return Capabilities{}, err
	}
	k := Capabilities{Version: v, Features: a.GetFeatures(), Handlers: map[string]*runtimeapi.RuntimeHandlerFeatures{}}
	for _, h := range a.GetRuntimeHandlers() {
		k.Handlers[h.GetName()] = h.GetFeatures()
	}
	return k, nil
}

// dependsOnRuntime reports whether a pod asks for a field that not every
// runtime honours. For most it does not, and nobody needs to be asked.
func dependsOnRuntime(pod *v1.Pod) bool {
	return slices.ContainsFunc(fieldSupports, func(f fieldSupport) bool { return len(f.requestedAt(pod)) > 0 })
}

// Unsupported is nil if the runtime is proven to honour all that a pod asks
// for in a sandbox of the handler, else an error that names each field that it
// is not, the runtime, and what would do.
func (k Capabilities) Unsupported(pod *v1.Pod, handler string) error {
	var faults []string
	for _, f := range fieldSupports {
		paths := f.requestedAt(pod)
		if len(paths) == 0 || f.feature != nil && f.feature(k) ||
			f.handlerFeature != nil && f.handlerFeature(k.Handlers[handler]) || atLeast(k.Version.Version, f.since[k.Name]) {
			continue
		}
		faults = append(faults, fmt.Sprintf("%s is not supported by this runtime, %s %s; it requires %s",
			strings.Join(paths, " and "), k.Name, k.Version.Version, f.wanted()))
	}
	if len(faults) == 0 {
		return nil
	}
	return errors.New(strings.Join(faults, "; "))
}

// wanted is what would do, for people.
func (f *fieldSupport) wanted() string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(f.since)) {
		list = append(list, name+" "+f.since[name]+" or later")
	}
	if f.requirement != "" {
		return f.requirement
	}
	if len(list) == 0 {
		return "a runtime that reports the feature"
	}
	return strings.Join(list, ", or ")
}

// atLeast reports whether a runtime's version is not before the one wanted.
// What it says beyond the numbers (v2.4.2, 1.6.20~ds1) does not count; one that
// cannot be read proves nothing, as does an empty wanted one.
func atLeast(have, want string) bool {
	if want == "" {
		return false
	}
	h, err := version.ParseGeneric(have)
	if err != nil {
		return false
	}
	return h.AtLeast(version.MustParseGeneric(want))
}

// ReasonUnsupported is why a pod waits for another runtime.
const ReasonUnsupported = "NotSupportedByRuntime"

// unsupportedRetry is how long a pod waits before the runtime is asked again.
// One that is upgraded goes away first, and pods that failed are looked at when
// it is back; this is for one that was exchanged faster than was noticed.
const unsupportedRetry = time.Minute

// supported looks whether the runtime honours all that the pod asks for, before
// anything is made of it. It is asked each time: a runtime may be upgraded
// beneath a daemon. What runs is not touched, whatever the answer.
func (t *transaction) checkSupport(ctx context.Context) error {
	if !dependsOnRuntime(t.Pod) {
		return nil
	}
	k, err := t.runtime.Capabilities(ctx)
	if err != nil {
		return fmt.Errorf("failed to determine what the runtime supports: %w", err)
	}
	if err := k.Unsupported(t.Pod, t.Sandbox.RuntimeHandler); err != nil {
		t.events.Event(t.Pod, v1.EventTypeWarning, ReasonUnsupported, err.Error())
		w := &waitError{Waiting: Waiting{ReasonUnsupported, err.Error()}, cause: err, retryAfter: unsupportedRetry}
		t.setWaiting("", w)
		return fmt.Errorf("failed to start pod: %w", w)
	}
	return nil
}

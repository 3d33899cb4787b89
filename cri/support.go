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

// fieldSupport is a field of a pod that not every runtime supports. CRI is
// protobuf: a runtime silently drops a field of a request that it does not know.
// So a pod that uses such a field waits until the runtime is known to support it,
// by a feature that it reports or, where there is none, by its name and version.
//
// To add one: add a row to fieldSupports; TestSupport then requires cases for it.
type fieldSupport struct {
	// requestedAt returns the paths at which a pod uses the field, such as
	// spec.containers[0].lifecycle.stopSignal; none if it does not.
	requestedAt func(pod *v1.Pod) []string
	// feature reports what the runtime reports about itself; nil if no feature
	// exists. If it is true, since is not used.
	feature func(Capabilities) bool
	// handlerFeature is feature for what it reports about the pod's runtime
	// handler.
	handlerFeature func(*runtimeapi.RuntimeHandlerFeatures) bool
	// since is, by the runtime's name as its Version call returns it, the first
	// version that supports the field. A runtime that is not listed must report
	// the feature. Messages recommend these versions, so it is set in addition to
	// a feature.
	since map[string]string
	// requirement is what messages recommend where no version suffices.
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
		// in 1.33. No feature of Status reports it.
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
		requirement: "a runtime that reports the feature, as containerd 2.0 and cri-o 1.30 do with runc 1.1 or crun " +
			"1.8.6 on Linux 5.12",
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
		requirement: "a runtime handler that reports user namespaces, such as containerd 2.0 or CRI-O 1.25 or later " +
			"with runc 1.2 or crun 1.9 or later",
	},
}

// podField returns the path of a field of the pod's spec, if the pod uses it.
func podField(path string, asks func(*v1.PodSpec) bool) func(*v1.Pod) []string {
	return func(pod *v1.Pod) []string {
		if !asks(&pod.Spec) {
			return nil
		}
		return []string{"spec." + path}
	}
}

// containerField returns the paths of a field in the init and regular containers
// that use it.
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

// Capabilities is what a runtime reports about itself.
type Capabilities struct {
	Version
	// Features are the runtime's, nil if it reports none.
	Features *runtimeapi.RuntimeFeatures
	// Handlers are the features of its runtime handlers by name, the default
	// one's under "".
	Handlers map[string]*runtimeapi.RuntimeHandlerFeatures
}

// Capabilities returns the runtime's version and features.
func (c *Client) Capabilities(ctx context.Context) (Capabilities, error) {
	v, err := c.Version(ctx)
	if err != nil {
		return Capabilities{}, err
	}
	a, err := read(ctx, c, operation{verb: "get the runtime's features"}, runtimeapi.RuntimeServiceClient.Status,
		&runtimeapi.StatusRequest{})
	if err != nil {
		return Capabilities{}, err
	}
	k := Capabilities{Version: v, Features: a.GetFeatures(), Handlers: map[string]*runtimeapi.RuntimeHandlerFeatures{}}
	for _, h := range a.GetRuntimeHandlers() {
		k.Handlers[h.GetName()] = h.GetFeatures()
	}
	return k, nil
}

// dependsOnRuntime reports whether a pod uses a field that not every runtime
// supports. Most pods do not, and the runtime need not be asked.
func dependsOnRuntime(pod *v1.Pod) bool {
	return slices.ContainsFunc(fieldSupports, func(f fieldSupport) bool { return len(f.requestedAt(pod)) > 0 })
}

// Unsupported returns nil if the runtime is known to support everything that a
// pod uses in a sandbox of the handler, else an error that names each unsupported
// field, the runtime, and what is required.
func (k Capabilities) Unsupported(pod *v1.Pod, handler string) error {
	var faults []string
	for _, f := range fieldSupports {
		paths := f.requestedAt(pod)
		if len(paths) == 0 || f.feature != nil && f.feature(k) ||
			f.handlerFeature != nil && f.handlerFeature(k.Handlers[handler]) || atLeast(k.Version.Version, f.since[k.Name]) {
			continue
		}
		faults = append(faults, fmt.Sprintf("%s is not supported by this runtime, %s %s; it requires %s",
			strings.Join(paths, " and "), k.Name, k.Version.Version, f.needs()))
	}
	if len(faults) == 0 {
		return nil
	}
	return errors.New(strings.Join(faults, "; "))
}

// needs describes what is required.
func (f *fieldSupport) needs() string {
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

// atLeast reports whether a runtime's version is at least the desired one.
// Suffixes (v2.4.2, 1.6.20~ds1) are ignored; a version that cannot be parsed is
// not sufficient, and neither is an empty desired one.
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

// unsupportedRetry is how long a pod waits before the runtime is asked again. An
// upgraded runtime goes away first, and failed pods are synced when it is back;
// this is for one that was replaced too fast to be noticed.
const unsupportedRetry = time.Minute

// checkSupport checks that the runtime supports everything that the pod uses,
// before anything is created. It asks each time: a runtime may be upgraded while
// the daemon runs. What runs is not changed, whatever the response.
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

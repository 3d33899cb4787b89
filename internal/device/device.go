package device

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
)

// Assignment is what the devices of one container add to it. The zero value adds nothing.
type Assignment struct {
	Env         map[string]string `json:"env,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Mounts      []Mount           `json:"mounts,omitempty"`
	Nodes       []Node            `json:"nodes,omitempty"`
	// CDI are fully qualified names of CDI devices, such as vendor.com/gpu=0.
	CDI []string `json:"cdi,omitempty"`
}

// Mount is a path of the host in the container.
type Mount struct {
	HostPath      string `json:"hostPath"`
	ContainerPath string `json:"containerPath"`
	ReadOnly      bool   `json:"readOnly,omitempty"`
}

// Node is a device node of the host in the container. Permissions are one or more of r, w
// and m (mknod).
type Node struct {
	HostPath      string `json:"hostPath"`
	ContainerPath string `json:"containerPath"`
	Permissions   string `json:"permissions"`
}

// Add adds what another resource of the same container assigns. A key of both keeps its value.
func (a *Assignment) Add(o Assignment) {
	addMissing(&a.Env, o.Env)
	addMissing(&a.Annotations, o.Annotations)
	a.Mounts = append(a.Mounts, o.Mounts...)
	a.Nodes = append(a.Nodes, o.Nodes...)
	a.CDI = append(a.CDI, o.CDI...)
}

func addMissing(to *map[string]string, from map[string]string) {
	for key, value := range from {
		if *to == nil {
			*to = map[string]string{}
		}
		if _, ok := (*to)[key]; !ok {
			(*to)[key] = value
		}
	}
}

// Unavailable is why a pod cannot have its devices now.
type Unavailable struct {
	Resource v1.ResourceName
	// Requested is the number of devices that the pod requests, Available the number that it
	// could have.
	Requested, Available int64
	// Cause reports why there are no more, and Remedy what the pod waits for.
	Cause, Remedy string
}

func (u *Unavailable) Error() string {
	return fmt.Sprintf("%s: requested %d, available %d; %s", u.Cause, u.Requested, u.Available, u.Remedy)
}

// IsResource reports whether a resource is one that devices provide: an extended resource, whose
// name has a domain that is not Kubernetes' own.
func IsResource(name v1.ResourceName) bool {
	domain, _, qualified := strings.Cut(string(name), "/")
	return qualified && !strings.Contains(string(name), v1.ResourceDefaultNamespacePrefix) &&
		!strings.HasPrefix(domain, v1.DefaultResourceRequestsPrefix) && len(utilvalidation.IsQualifiedName(string(name))) == 0
}

// Requests returns the number of devices that a container of a pod requests, by resource; nil for none.
// Devices cannot be overcommitted: the limit is the request. Names that are no valid extended
// resources are included; no plugin can register them. Those that the scheduler has taken from a resource
// claim are not: its driver has them.
func Requests(pod *v1.Pod, c *v1.Container) map[v1.ResourceName]int64 {
	var requests map[v1.ResourceName]int64
	for name, quantity := range c.Resources.Limits {
		if n := quantity.Value(); n > 0 && strings.Contains(string(name), "/") && !fromClaim(pod, c, name) {
			if requests == nil {
				requests = map[v1.ResourceName]int64{}
			}
			requests[name] = n
		}
	}
	return requests
}

// fromClaim reports whether the devices of a resource come from a resource claim.
func fromClaim(pod *v1.Pod, c *v1.Container, name v1.ResourceName) bool {
	extended := pod.Status.ExtendedResourceClaimStatus
	return extended != nil && slices.ContainsFunc(extended.RequestMappings,
		func(m v1.ContainerExtendedResourceRequest) bool {
			return m.ContainerName == c.Name && m.ResourceName == string(name)
		})
}

// InUse reports whether a pod requests devices.
func InUse(pod *v1.Pod) bool {
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if len(Requests(pod, &list[i])) > 0 {
				return true
			}
		}
	}
	return false
}

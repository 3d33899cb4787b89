package kubeapi

import (
	"context"
	"net/http"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/podstead/podstead/httpapi/apistatus"
)

// UsageGroup describes the group metrics.k8s.io for discovery.
var UsageGroup = metav1.APIResourceList{
	GroupVersion: usageVersion,
	APIResources: []metav1.APIResource{
		{Name: "nodes", Kind: "NodeMetrics", Verbs: metav1.Verbs{"get", "list"}},
		{Name: "pods", Kind: "PodMetrics", Namespaced: true, Verbs: metav1.Verbs{"get", "list"}},
	},
}

const usageVersion = "metrics.k8s.io/v1beta1"

// ResourceUsage is CPU usage in cores and the memory working set in bytes.
type ResourceUsage struct {
	Cores  float64
	Memory uint64
}

// NodeUsage is the resource usage of the node.
type NodeUsage struct {
	Name   string
	Labels map[string]string
	At     time.Time
	// Window is the time over which Cores is averaged.
	Window time.Duration
	ResourceUsage
}

// PodUsage is the resource usage of the containers of a pod.
type PodUsage struct {
	Name, Namespace string
	// ManifestName is the name in the manifest, by which a request for one pod finds it too.
	ManifestName string
	Labels       map[string]string
	At           time.Time
	Window       time.Duration
	Containers   []ContainerUsage
}

// ContainerUsage is the resource usage of a container.
type ContainerUsage struct {
	Name string
	ResourceUsage
}

// UsageReader returns the current resource usage of the node and the pods. Objects whose
// usage is not known are left out.
type UsageReader interface {
	Usage(ctx context.Context) ([]NodeUsage, []PodUsage, error)
}

// The objects of the group, with the JSON names of the API.
type (
	nodeMetrics struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Timestamp         metav1.Time     `json:"timestamp"`
		Window            metav1.Duration `json:"window"`
		Usage             v1.ResourceList `json:"usage"`
	}
	podMetrics struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Timestamp         metav1.Time        `json:"timestamp"`
		Window            metav1.Duration    `json:"window"`
		Containers        []containerMetrics `json:"containers"`
	}
	containerMetrics struct {
		Name  string          `json:"name"`
		Usage v1.ResourceList `json:"usage"`
	}
	metricsList struct {
		metav1.TypeMeta `json:",inline"`
		metav1.ListMeta `json:"metadata"`
		Items           []any `json:"items"`
	}
)

// UsageHandler serves a resource of the group metrics.k8s.io, "nodes" or "pods": one object
// if the path has a name, else a list.
func UsageHandler(reader UsageReader, resource string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		selected, failure := usageSelectionOf(r, resource)
		if failure != nil {
			apistatus.Write(w, r, failure)
			return
		}
		nodes, pods, err := reader.Usage(r.Context())
		if err != nil {
			apistatus.Write(w, r, apistatus.New(http.StatusServiceUnavailable, "failed to read the resource usage: %v", err))
			return
		}
		list := metricsList{TypeMeta: usageType("NodeMetricsList"), Items: []any{}}
		if resource == "pods" {
			list.TypeMeta = usageType("PodMetricsList")
			for i := range pods {
				p := &pods[i]
				if selected.name == p.ManifestName && selected.name != "" {
					p.Name = p.ManifestName // the client looks for the name that it has asked for
				}
				if selected.matches(p.Namespace, p.Name, p.Labels) {
					list.Items = append(list.Items, podMetricsOf(p))
				}
			}
		} else {
			for i := range nodes {
				if n := &nodes[i]; selected.matches("", n.Name, n.Labels) {
					list.Items = append(list.Items, nodeMetricsOf(n))
				}
			}
		}
		switch name := r.PathValue("name"); {
		case name == "":
			writeJSON(w, http.StatusOK, list)
		case len(list.Items) == 1:
			writeJSON(w, http.StatusOK, list.Items[0])
		default:
			s := apistatus.New(http.StatusNotFound, "%s %q not found, or not measured yet", resource, name)
			s.Details = &metav1.StatusDetails{Name: name, Group: "metrics.k8s.io", Kind: resource}
			apistatus.Write(w, r, s)
		}
	}
}

// usageSelection selects objects by name, namespace, labels and fields.
type usageSelection struct {
	namespace, name string
	labels          labels.Selector
	fields          fields.Selector
}

func usageSelectionOf(r *http.Request, resource string) (usageSelection, *metav1.Status) {
	q := r.URL.Query()
	c := usageSelection{namespace: r.PathValue("namespace"), name: r.PathValue("name")}
	if watches, err := strconv.ParseBool(q.Get("watch")); err == nil && watches {
		return c, apistatus.New(http.StatusMethodNotAllowed, "%s of metrics.k8s.io do not support watch", resource)
	}
	var err error
	if c.labels, err = labels.Parse(q.Get("labelSelector")); err != nil {
		return c, badRequest("labelSelector: %v", err)
	}
	if c.fields, err = fields.ParseSelector(q.Get("fieldSelector")); err != nil {
		return c, badRequest("fieldSelector: %v", err)
	}
	for _, requirement := range c.fields.Requirements() {
		if requirement.Field != "metadata.name" && (requirement.Field != "metadata.namespace" || resource != "pods") {
			return c, badRequest("fieldSelector: %q is not a supported field of %s", requirement.Field, resource)
		}
	}
	return c, nil
}

func (c *usageSelection) matches(namespace, name string, own map[string]string) bool {
	return (c.namespace == "" || c.namespace == namespace) && (c.name == "" || c.name == name) &&
		c.labels.Matches(labels.Set(own)) &&
		c.fields.Matches(fields.Set{"metadata.name": name, "metadata.namespace": namespace})
}

func usageType(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{Kind: kind, APIVersion: usageVersion}
}

func nodeMetricsOf(n *NodeUsage) *nodeMetrics {
	return &nodeMetrics{
		TypeMeta:   usageType("NodeMetrics"),
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: n.Labels, CreationTimestamp: metav1.NewTime(n.At)},
		Timestamp:  metav1.NewTime(n.At), Window: metav1.Duration{Duration: n.Window.Round(time.Millisecond)},
		Usage: n.list(),
	}
}

func podMetricsOf(p *PodUsage) *podMetrics {
	m := &podMetrics{
		TypeMeta: usageType("PodMetrics"),
		ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace, Labels: p.Labels,
			CreationTimestamp: metav1.NewTime(p.At)},
		Timestamp: metav1.NewTime(p.At), Window: metav1.Duration{Duration: p.Window.Round(time.Millisecond)},
		Containers: make([]containerMetrics, 0, len(p.Containers)),
	}
	for i := range p.Containers {
		m.Containers = append(m.Containers, containerMetrics{p.Containers[i].Name, p.Containers[i].list()})
	}
	return m
}

func (u *ResourceUsage) list() v1.ResourceList {
	return v1.ResourceList{
		v1.ResourceCPU:    *quantity.NewScaledQuantity(int64(u.Cores*1e9), quantity.Nano),
		v1.ResourceMemory: *quantity.NewQuantity(int64(u.Memory), quantity.BinarySI),
	}
}

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
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/httpapi/apistatus"
	"github.com/podstead/podstead/internal/usage"
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

// Usage is where the resource usage of the node and its pods comes from.
type Usage struct {
	// Node is the name of the node, Labels are its labels.
	Node   string
	Labels map[string]string
	// Read returns the current usage. The result is not modified.
	Read func(ctx context.Context) (*usage.Node, *usage.Pods, error)
	// Pods have the labels of pods; ManifestName returns the name in the manifest, by which a request for one pod
	// finds it too.
	Pods         func() []*v1.Pod
	ManifestName func(*v1.Pod) string
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
// if the path has a name, else a list. Objects whose usage is not known are left out.
func UsageHandler(source Usage, resource string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		selected, failure := usageSelectionOf(r, resource)
		if failure != nil {
			apistatus.Write(w, r, failure)
			return
		}
		node, pods, err := source.Read(r.Context())
		if err != nil {
			apistatus.Write(w, r, apistatus.New(http.StatusServiceUnavailable, "failed to read the resource usage: %v", err))
			return
		}
		list := metricsList{TypeMeta: usageType("NodeMetricsList"), Items: []any{}}
		if resource == "pods" {
			list.TypeMeta, list.Items = usageType("PodMetricsList"), source.pods(pods, &selected)
		} else if m := source.node(node); m != nil && selected.matches("", m.Name, m.Labels) {
			list.Items = append(list.Items, m)
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

// node returns the metrics of the node, nil if they are not known.
func (s *Usage) node(u *usage.Node) *nodeMetrics {
	list, window := resourcesOf(&u.Usage)
	if list == nil {
		return nil
	}
	return &nodeMetrics{
		TypeMeta:   usageType("NodeMetrics"),
		ObjectMeta: metav1.ObjectMeta{Name: s.Node, Labels: s.Labels, CreationTimestamp: metav1.NewTime(u.At)},
		Timestamp:  metav1.NewTime(u.At), Window: metav1.Duration{Duration: window.Round(time.Millisecond)}, Usage: list,
	}
}

// pods returns the metrics of the selected pods.
func (s *Usage) pods(used *usage.Pods, selected *usageSelection) []any {
	specs := map[types.UID]*v1.Pod{}
	for _, pod := range s.Pods() {
		specs[pod.UID] = pod
	}
	list := []any{}
	for i := range used.Pods {
		u := &used.Pods[i]
		m := &podMetrics{TypeMeta: usageType("PodMetrics"), Timestamp: metav1.NewTime(u.At),
			ObjectMeta: metav1.ObjectMeta{Name: u.Name, Namespace: u.Namespace, CreationTimestamp: metav1.NewTime(u.At)}}
		if spec := specs[u.UID]; spec != nil {
			m.Labels = spec.Labels
			if name := s.ManifestName(spec); name == selected.name {
				m.Name = name // the client looks for the name that it has asked for
			}
		}
		if !selected.matches(m.Namespace, m.Name, m.Labels) {
			continue
		}
		for j := range u.Containers {
			c := &u.Containers[j]
			if resources, window := resourcesOf(&c.Usage); resources != nil {
				m.Window.Duration = max(m.Window.Duration, window.Round(time.Millisecond))
				m.Containers = append(m.Containers, containerMetrics{c.Name, resources})
			}
		}
		if len(m.Containers) > 0 {
			list = append(list, m)
		}
	}
	return list
}

// resourcesOf returns the CPU and the memory in use, nil unless both are known, and the time over which the CPU is
// averaged.
func resourcesOf(u *usage.Usage) (v1.ResourceList, time.Duration) {
	if u.CPU == nil || u.CPU.Rate == nil || u.Memory == nil {
		return nil, 0
	}
	return v1.ResourceList{
		v1.ResourceCPU:    *quantity.NewScaledQuantity(int64(*u.CPU.Rate*1e9), quantity.Nano),
		v1.ResourceMemory: *quantity.NewQuantity(int64(u.WorkingSet()), quantity.BinarySI),
	}, u.CPU.Window
}

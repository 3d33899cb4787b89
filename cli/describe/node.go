package describe

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/yaml"

	"github.com/podstead/podstead/cli/objects"
	"github.com/podstead/podstead/cli/terminal"
	"github.com/podstead/podstead/internal/device"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/manifest"
)

// node returns the description of the node.
func (d *Describer) node(ctx context.Context, o *objects.Object, events []v1.Event) (string, error) {
	var n v1.Node
	if err := o.Decode(&n); err != nil {
		return "", err
	}
	l, err := objects.Query{Kind: objects.PodKind()}.List(ctx, d.client)
	if err != nil {
		return "", err
	}
	var pods []*v1.Pod
	for _, o := range l.Objects {
		p, err := objects.DecodePod(o)
		if err != nil {
			return "", err
		}
		pods = append(pods, p)
	}
	return NodeText(&n, pods, events, time.Now()), nil
}

// NodeText returns the description of the node: its properties, conditions and resources,
// and the requests of its pods. As with kubectl pods that have terminated are not among them.
func NodeText(n *v1.Node, pods []*v1.Pod, events []v1.Event, now time.Time) string {
	pods = slices.DeleteFunc(slices.Clone(pods), func(p *v1.Pod) bool { return podinfo.IsTerminal(p.Status.Phase) })
	r := &terminal.Report{}
	field := func(key, value string) { r.Field(0, valueColumn, key, value) }
	field("Name", n.Name)
	field("Labels", terminal.OrNone(strings.Join(pairs(n.Labels, "="), "\n")))
	field("Age", terminal.OrNone(age(&n.CreationTimestamp, now)))
	for _, a := range n.Status.Addresses {
		field(string(a.Type), a.Address)
	}
	info := n.Status.NodeInfo
	for _, row := range [][2]string{
		{"Version", info.KubeletVersion}, {"Runtime", info.ContainerRuntimeVersion}, {"OS", info.OSImage},
		{"Kernel", info.KernelVersion}, {"Architecture", info.Architecture}, {"Machine ID", info.MachineID},
		{"Boot ID", info.BootID},
	} {
		if row[1] != "" {
			field(row[0], row[1])
		}
	}
	t := terminal.Table{Header: []string{"Type", "Status", "Since", "Reason", "Message"}}
	for _, c := range n.Status.Conditions {
		t.Rows = append(t.Rows, []string{string(c.Type), string(c.Status), terminal.OrNone(age(&c.LastTransitionTime, now)),
			terminal.OrNone(c.Reason), terminal.OneLine(c.Message)})
	}
	r.Table("Conditions", t)
	r.Table("Resources", resourceTable(n, pods))
	if t := deviceTable(pods); len(t.Rows) > 0 {
		r.Table("Devices", t)
	}
	t = terminal.Table{Header: []string{"Namespace", "Name", "CPU Requests", "CPU Limits", "Memory Requests",
		"Memory Limits", "Age"}}
	for _, p := range pods {
		requests, limits := podResources(p)
		t.Rows = append(t.Rows, []string{
			p.Namespace, manifest.BaseName(p), quantityOf(requests, v1.ResourceCPU), quantityOf(limits, v1.ResourceCPU),
			quantityOf(requests, v1.ResourceMemory), quantityOf(limits, v1.ResourceMemory),
			terminal.OrNone(age(p.Status.StartTime, now)),
		})
	}
	r.Table("Pods", t)
	r.Table("Events", eventTable(events, now))
	return r.String()
}

// resourceTable returns the capacity, the allocatable amounts and the sums of the pods'
// requests and limits.
func resourceTable(n *v1.Node, pods []*v1.Pod) terminal.Table {
	requested, limited := v1.ResourceList{}, v1.ResourceList{}
	for _, p := range pods {
		requests, limits := podResources(p)
		podinfo.AddResources(requested, requests)
		podinfo.AddResources(limited, limits)
	}
	requested[v1.ResourcePods] = *resource.NewQuantity(int64(len(pods)), resource.DecimalSI)
	t := terminal.Table{Header: []string{"Resource", "Capacity", "Allocatable", "Requested", "Limits"}}
	for _, name := range slices.Sorted(maps.Keys(n.Status.Capacity)) {
		allocatable, sum := n.Status.Allocatable[name], requested[name]
		text := sum.String()
		if total := allocatable.AsApproximateFloat64(); total > 0 {
			text += fmt.Sprintf(" (%.0f%%)", 100*sum.AsApproximateFloat64()/total)
		}
		t.Rows = append(t.Rows, []string{string(name), quantityOf(n.Status.Capacity, name),
			quantityOf(n.Status.Allocatable, name), text, quantityOf(limited, name)})
	}
	return t
}

// deviceTable returns the devices that the containers of pods have.
func deviceTable(pods []*v1.Pod) terminal.Table {
	t := terminal.Table{Header: []string{"Resource", "Device", "Health", "Namespace", "Pod", "Container"}}
	for _, p := range pods {
		for _, d := range device.InStatus(p) {
			t.Rows = append(t.Rows, []string{string(d.Resource), string(d.ID), string(d.Health), p.Namespace,
				manifest.BaseName(p), d.Container})
		}
	}
	slices.SortStableFunc(t.Rows, func(a,
		b []string) int {
		return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]))
	})
	return t
}

// podResources returns the sums of a pod's containers, or the amounts of the pod itself if
// given. Init containers other than sidecars are not counted, since they end before the
// others start.
func podResources(p *v1.Pod) (requests, limits v1.ResourceList) {
	requests, limits = v1.ResourceList{}, v1.ResourceList{}
	for c := range podinfo.LongRunning(&p.Spec) {
		podinfo.AddResources(requests, c.Resources.Requests)
		podinfo.AddResources(limits, c.Resources.Limits)
	}
	if r := p.Spec.Resources; r != nil {
		maps.Copy(requests, r.Requests)
		maps.Copy(limits, r.Limits)
	}
	podinfo.AddResources(requests, p.Spec.Overhead)
	return requests, limits
}

// quantityOf returns the amount of a resource, 0 if it is not in the list.
func quantityOf(list v1.ResourceList, name v1.ResourceName) string {
	q, ok := list[name]
	if !ok {
		return "0"
	}
	return q.String()
}

// age returns the time since t, empty for no time.
func age(t *metav1.Time, now time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return duration.HumanDuration(now.Sub(t.Time))
}

// other returns the description of an object of a kind without a special description: its
// metadata, then its fields.
func (d *Describer) other(ctx context.Context, k *objects.Kind, o *objects.Object, events []v1.Event) (string, error) {
	r := &terminal.Report{}
	field := func(key, value string) { r.Field(0, valueColumn, key, value) }
	field("Name", o.Name)
	if k.Namespaced {
		field("Namespace", o.Namespace)
	}
	if k.Local == nil {
		field("Labels", terminal.OrNone(strings.Join(pairs(o.Labels, "="), "\n")))
		field("Annotations", terminal.OrNone(strings.Join(pairs(o.Annotations, ": "), "\n")))
	}
	if k.Prepare != nil {
		all, err := d.client.Objects(ctx)
		if err != nil {
			return "", err
		}
		for _, l := range all {
			if l.Kind == objects.KindName(k) && l.Namespace == o.Namespace && l.Name == o.Name {
				field("Manifest", l.Manifest)
			}
		}
	}
	tree, _ := o.Tree().(map[string]any)
	rest := maps.Clone(tree)
	for _, key := range []string{"apiVersion", "kind", "metadata", "name", "namespace"} {
		delete(rest, key)
	}
	if data, ok := rest["data"].(map[string]any); ok && k.Name == "secrets" {
		masked := map[string]any{}
		for key := range data {
			masked[key] = "(not shown)"
		}
		rest["data"] = masked
	}
	if len(rest) > 0 {
		text, err := yaml.Marshal(rest)
		if err != nil {
			return "", fmt.Errorf("failed to print %s %s: %w", k.Singular, o.Name, err)
		}
		for _, l := range terminal.Lines(string(text)) {
			r.Line(0, l)
		}
	}
	if k.Local == nil && k.Name != "events" {
		r.Table("Events", eventTable(events, time.Now()))
	}
	return r.String(), nil
}

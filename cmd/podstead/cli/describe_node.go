package cli

import (
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

	"github.com/podstead/podstead/manifest"
)

// node describes the node: what it is, how it is, and what its pods ask of it.
func (d *describer) node(o *object, happened []v1.Event) (string, error) {
	var n v1.Node
	if err := o.into(&n); err != nil {
		return "", fmt.Errorf("cannot read the node that podstead sent: %w", err)
	}
	l, err := query{kind: podKind()}.list(d.cmd.Context(), d.client)
	if err != nil {
		return "", err
	}
	var pods []*v1.Pod
	for _, o := range l.objects {
		p, err := podOf(o)
		if err != nil {
			return "", err
		}
		pods = append(pods, p)
	}
	return nodeText(&n, pods, happened, time.Now()), nil
}

func nodeText(n *v1.Node, pods []*v1.Pod, happened []v1.Event, now time.Time) string {
	s := &sheet{}
	field := func(key, value string) { s.field(0, topWidth, key, value) }
	field("Name", n.Name)
	field("Labels", orNone(strings.Join(pairs(n.Labels, "="), "\n")))
	field("Since", orNone(agoText(n.CreationTimestamp, now)))
	for _, a := range n.Status.Addresses {
		field(string(a.Type), a.Address)
	}
	info := n.Status.NodeInfo
	for _, row := range [][2]string{
		{"Version", info.KubeletVersion}, {"Runtime", info.ContainerRuntimeVersion}, {"OS", info.OSImage},
		{"Kernel", info.KernelVersion}, {"Architecture", info.Architecture}, {"Machine ID", info.MachineID}, {"Boot ID", info.BootID},
	} {
		if row[1] != "" {
			field(row[0], row[1])
		}
	}
	t := table{head: []string{"Type", "Status", "Since", "Reason", "Message"}}
	for _, c := range n.Status.Conditions {
		t.rows = append(t.rows, []string{string(c.Type), string(c.Status), orNone(agoText(c.LastTransitionTime, now)), orNone(c.Reason), oneLine(c.Message)})
	}
	s.rows("Conditions", t)
	s.rows("Resources", resourceTable(n, pods))
	t = table{head: []string{"Namespace", "Name", "CPU Requests", "CPU Limits", "Memory Requests", "Memory Limits", "Age"}}
	for _, p := range pods {
		requests, limits := podResources(p)
		t.rows = append(t.rows, []string{
			p.Namespace, manifest.BaseName(p), quantityOf(requests, v1.ResourceCPU), quantityOf(limits, v1.ResourceCPU),
			quantityOf(requests, v1.ResourceMemory), quantityOf(limits, v1.ResourceMemory), orNone(agoTime(p.Status.StartTime, now)),
		})
	}
	s.rows("Pods", t)
	s.rows("Events", eventTable(happened, now))
	return s.String()
}

// resourceTable is what there is, what pods may have, and what they ask for.
func resourceTable(n *v1.Node, pods []*v1.Pod) table {
	asked, bound := v1.ResourceList{}, v1.ResourceList{}
	for _, p := range pods {
		requests, limits := podResources(p)
		sumInto(asked, requests)
		sumInto(bound, limits)
	}
	asked[v1.ResourcePods] = *resource.NewQuantity(int64(len(pods)), resource.DecimalSI)
	t := table{head: []string{"Resource", "Capacity", "Allocatable", "Requested", "Limits"}}
	for _, name := range slices.Sorted(maps.Keys(n.Status.Capacity)) {
		allocatable, requested := n.Status.Allocatable[name], asked[name]
		text := requested.String()
		if whole := allocatable.AsApproximateFloat64(); whole > 0 {
			text += fmt.Sprintf(" (%.0f%%)", 100*requested.AsApproximateFloat64()/whole)
		}
		t.rows = append(t.rows, []string{string(name), quantityOf(n.Status.Capacity, name), quantityOf(n.Status.Allocatable, name), text, quantityOf(bound, name)})
	}
	return t
}

// podResources are the sums of a pod's containers, or what the pod itself says.
// An init container that ends before the others is not counted: it asks for
// its share before they do.
func podResources(p *v1.Pod) (requests, limits v1.ResourceList) {
	requests, limits = v1.ResourceList{}, v1.ResourceList{}
	add := func(list []v1.Container) {
		for i := range list {
			sumInto(requests, list[i].Resources.Requests)
			sumInto(limits, list[i].Resources.Limits)
		}
	}
	add(p.Spec.Containers)
	for i := range p.Spec.InitContainers {
		if c := &p.Spec.InitContainers[i]; c.RestartPolicy != nil {
			add(p.Spec.InitContainers[i : i+1])
		}
	}
	if r := p.Spec.Resources; r != nil {
		maps.Copy(requests, r.Requests)
		maps.Copy(limits, r.Limits)
	}
	sumInto(requests, p.Spec.Overhead)
	return requests, limits
}

func sumInto(sum, more v1.ResourceList) {
	for name, q := range more {
		total := sum[name]
		total.Add(q)
		sum[name] = total
	}
}

func quantityOf(list v1.ResourceList, name v1.ResourceName) string {
	q, ok := list[name]
	if !ok {
		return "0"
	}
	return q.String()
}

func agoText(t metav1.Time, now time.Time) string { return agoTime(&t, now) }

func agoTime(t *metav1.Time, now time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return duration.HumanDuration(now.Sub(t.Time))
}

// plain describes an object of a kind that has no description of its own: what
// is known of all objects, then its fields.
func (d *describer) plain(k *kind, o *object, happened []v1.Event) (string, error) {
	s := &sheet{}
	field := func(key, value string) { s.field(0, topWidth, key, value) }
	field("Name", o.Name)
	if k.namespaced {
		field("Namespace", o.Namespace)
	}
	if k.local == nil {
		field("Labels", orNone(strings.Join(pairs(o.Labels, "="), "\n")))
		field("Annotations", orNone(strings.Join(pairs(o.Annotations, ": "), "\n")))
	}
	if k.prepare != nil {
		all, err := localObjects(d.cmd.Context(), d.client, kindName(k))
		if err != nil {
			return "", err
		}
		for _, l := range all {
			if l.Namespace == o.Namespace && l.Name == o.Name {
				field("Manifest", l.Manifest)
			}
		}
	}
	tree, _ := o.tree().(map[string]any)
	rest := maps.Clone(tree)
	for _, key := range []string{"apiVersion", "kind", "metadata", "name", "namespace"} {
		delete(rest, key)
	}
	if data, ok := rest["data"].(map[string]any); ok && k.name == "secrets" {
		veiled := map[string]any{}
		for key := range data {
			veiled[key] = "(not shown)"
		}
		rest["data"] = veiled
	}
	if len(rest) > 0 {
		text, err := yaml.Marshal(rest)
		if err != nil {
			return "", fmt.Errorf("cannot print %s %s: %w", k.singular, o.Name, err)
		}
		for _, l := range lines(string(text)) {
			s.line(0, l)
		}
	}
	if k.local == nil && k.name != "events" {
		s.rows("Events", eventTable(happened, time.Now()))
	}
	return s.String(), nil
}

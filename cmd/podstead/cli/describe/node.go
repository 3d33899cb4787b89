package describe

import (
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

	"github.com/podstead/podstead/cmd/podstead/cli/objects"
	"github.com/podstead/podstead/cmd/podstead/cli/terminal"
	"github.com/podstead/podstead/manifest"
)

// node describes the node: what it is, how it is, and what its pods ask of it.
func (d *Describer) node(ctx context.Context, o *objects.Object, happened []v1.Event) (string, error) {
	var n v1.Node
	if err := o.Decode(&n); err != nil {
		return "", fmt.Errorf("cannot read the node that podstead sent: %w", err)
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
	return NodeText(&n, pods, happened, time.Now()), nil
}

func NodeText(n *v1.Node, pods []*v1.Pod, happened []v1.Event, now time.Time) string {
	s := &terminal.Report{}
	field := func(key, value string) { s.Field(0, topWidth, key, value) }
	field("Name", n.Name)
	field("Labels", terminal.OrNone(strings.Join(pairs(n.Labels, "="), "\n")))
	field("Since", terminal.OrNone(agoText(n.CreationTimestamp, now)))
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
	t := terminal.Table{Header: []string{"Type", "Status", "Since", "Reason", "Message"}}
	for _, c := range n.Status.Conditions {
		t.Rows = append(t.Rows, []string{string(c.Type), string(c.Status), terminal.OrNone(agoText(c.LastTransitionTime, now)), terminal.OrNone(c.Reason), terminal.OneLine(c.Message)})
	}
	s.Table("Conditions", t)
	s.Table("Resources", resourceTable(n, pods))
	t = terminal.Table{Header: []string{"Namespace", "Name", "CPU Requests", "CPU Limits", "Memory Requests", "Memory Limits", "Age"}}
	for _, p := range pods {
		requests, limits := podResources(p)
		t.Rows = append(t.Rows, []string{
			p.Namespace, manifest.BaseName(p), quantityOf(requests, v1.ResourceCPU), quantityOf(limits, v1.ResourceCPU),
			quantityOf(requests, v1.ResourceMemory), quantityOf(limits, v1.ResourceMemory), terminal.OrNone(agoTime(p.Status.StartTime, now)),
		})
	}
	s.Table("Pods", t)
	s.Table("Events", eventTable(happened, now))
	return s.String()
}

// resourceTable is what there is, what pods may have, and what they ask for.
func resourceTable(n *v1.Node, pods []*v1.Pod) terminal.Table {
	asked, bound := v1.ResourceList{}, v1.ResourceList{}
	for _, p := range pods {
		requests, limits := podResources(p)
		sumInto(asked, requests)
		sumInto(bound, limits)
	}
	asked[v1.ResourcePods] = *resource.NewQuantity(int64(len(pods)), resource.DecimalSI)
	t := terminal.Table{Header: []string{"Resource", "Capacity", "Allocatable", "Requested", "Limits"}}
	for _, name := range slices.Sorted(maps.Keys(n.Status.Capacity)) {
		allocatable, requested := n.Status.Allocatable[name], asked[name]
		text := requested.String()
		if whole := allocatable.AsApproximateFloat64(); whole > 0 {
			text += fmt.Sprintf(" (%.0f%%)", 100*requested.AsApproximateFloat64()/whole)
		}
		t.Rows = append(t.Rows, []string{string(name), quantityOf(n.Status.Capacity, name), quantityOf(n.Status.Allocatable, name), text, quantityOf(bound, name)})
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
func (d *Describer) plain(ctx context.Context, k *objects.Kind, o *objects.Object, happened []v1.Event) (string, error) {
	s := &terminal.Report{}
	field := func(key, value string) { s.Field(0, topWidth, key, value) }
	field("Name", o.Name)
	if k.Namespaced {
		field("Namespace", o.Namespace)
	}
	if k.Local == nil {
		field("Labels", terminal.OrNone(strings.Join(pairs(o.Labels, "="), "\n")))
		field("Annotations", terminal.OrNone(strings.Join(pairs(o.Annotations, ": "), "\n")))
	}
	if k.Prepare != nil {
		all, err := objects.ManifestObjects(ctx, d.client, objects.KindName(k))
		if err != nil {
			return "", err
		}
		for _, l := range all {
			if l.Namespace == o.Namespace && l.Name == o.Name {
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
		veiled := map[string]any{}
		for key := range data {
			veiled[key] = "(not shown)"
		}
		rest["data"] = veiled
	}
	if len(rest) > 0 {
		text, err := yaml.Marshal(rest)
		if err != nil {
			return "", fmt.Errorf("cannot print %s %s: %w", k.Singular, o.Name, err)
		}
		for _, l := range terminal.Lines(string(text)) {
			s.Line(0, l)
		}
	}
	if k.Local == nil && k.Name != "events" {
		s.Table("Events", eventTable(happened, time.Now()))
	}
	return s.String(), nil
}

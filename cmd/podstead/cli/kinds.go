package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/internal/suggest"
	"github.com/podstead/podstead/manifest"
)

// kind is one that can be got.
type kind struct {
	name, singular string
	short          []string
	namespaced     bool
	// path is where the Kubernetes API has it, such as /api/v1; empty for what
	// only podstead has, which local lists.
	path  string
	local func(ctx context.Context, c *client) ([]json.RawMessage, error)
	// head and row make the table here; without row it is the server's.
	head, wide []string
	row        func(o *object, now time.Time) ([]string, error)
	// prepare asks for what row needs besides the object; nil for nothing.
	prepare func(ctx context.Context, c *client) error
	// names are further names by which an object is asked for.
	names func(o *object) []string
}

// kinds are those that are known here. What else the daemon's discovery names
// can be got too, in the server's tables.
func kinds() []*kind {
	return []*kind{
		{
			name: "pods", singular: "pod", short: []string{"po"}, namespaced: true, path: "/api/v1",
			head: podHead, wide: podHeadWide, row: podCells, names: podNames,
		},
		{
			name: "events", singular: "event", short: []string{"ev"}, namespaced: true, path: "/api/v1",
			head: eventHead, wide: eventHeadWide, row: eventCells, names: eventNames,
		},
		{name: "nodes", singular: "node", short: []string{"no"}, path: "/api/v1"},
		{name: "namespaces", singular: "namespace", short: []string{"ns"}, path: "/api/v1"},
		objectKind("configmaps", "configmap", manifest.KindConfigMap, "cm"),
		objectKind("secrets", "secret", manifest.KindSecret),
		objectKind("persistentvolumeclaims", "persistentvolumeclaim", manifest.KindClaim, "pvc"),
		classKind("priorityclasses", "priorityclass", manifest.KindPriorityClass, "pc"),
		classKind("runtimeclasses", "runtimeclass", manifest.KindRuntimeClass),
		{
			name: "images", singular: "image", local: localImages, names: imageNames,
			head: imageHead, row: imageCells,
		},
		{
			name: "volumes", singular: "volume", short: []string{"vol", "pv"}, namespaced: true, local: localVolumes,
			head: volumeHead, row: volumeCells,
		},
	}
}

func (k *kind) is(word string) bool {
	word = strings.ToLower(word)
	if word == "all" { // kubectl's word for what runs
		word = "pods"
	}
	return word == k.name || word == k.singular || slices.Contains(k.short, word)
}

// findKind is the kind that a word means. The daemon is asked only for a word
// that is not known here.
func findKind(ctx context.Context, c *client, word string) (*kind, error) {
	known := kinds()
	for _, k := range known {
		if k.is(word) {
			return k, nil
		}
	}
	var served metav1.APIResourceList
	if err := c.get(ctx, "/api/v1", &served); err != nil {
		return nil, err
	}
	names := []string{}
	for _, r := range served.APIResources {
		if strings.Contains(r.Name, "/") || !slices.Contains(r.Verbs, "list") {
			continue
		}
		k := &kind{name: r.Name, singular: cmp.Or(r.SingularName, r.Name), short: r.ShortNames, namespaced: r.Namespaced, path: "/api/v1"}
		if k.is(word) {
			return k, nil
		}
		if !slices.ContainsFunc(known, func(other *kind) bool { return other.name == k.name }) {
			known = append(known, k)
		}
	}
	all := []string{}
	for _, k := range known {
		names = append(names, k.name)
		all = append(append(all, k.name, k.singular), k.short...)
	}
	hint := ""
	if near := suggest.Nearest(strings.ToLower(word), all); near != "" {
		hint = fmt.Sprintf("; did you mean %s?", near)
	}
	return nil, usageError(fmt.Errorf("there is no %q to get%s It can be one of %s", word, cmp.Or(hint, "."), strings.Join(names, ", ")))
}

// answersTo reports whether an object is the one that a name means.
func (k *kind) answersTo(o *object, name string) bool {
	if o.Name == name {
		return true
	}
	return k.names != nil && slices.Contains(k.names(o), name)
}

// podNames: a pod is also called what its manifest calls it.
func podNames(o *object) []string {
	p := v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: o.Name, Annotations: o.Annotations}}
	var spec struct{ Spec struct{ NodeName string } }
	if o.into(&spec) == nil {
		p.Spec.NodeName = spec.Spec.NodeName
	}
	return []string{manifest.BaseName(&p)}
}

// eventNames: an event is also called what it is about.
func eventNames(o *object) []string {
	var e v1.Event
	if o.into(&e) != nil {
		return nil
	}
	names := []string{e.InvolvedObject.Name}
	if base, ok := strings.CutSuffix(e.InvolvedObject.Name, "-"+strings.ToLower(e.Source.Host)); ok && e.InvolvedObject.Kind == "Pod" {
		names = append(names, base)
	}
	return names
}

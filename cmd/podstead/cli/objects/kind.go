package objects

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

	"github.com/podstead/podstead/cmd/podstead/cli/client"
	"github.com/podstead/podstead/cmd/podstead/cli/terminal"
	"github.com/podstead/podstead/internal/suggest"
	"github.com/podstead/podstead/manifest"
)

// kind is one that can be got.
type Kind struct {
	Name, Singular string
	ShortNames     []string
	Namespaced     bool
	// path is where the Kubernetes API has it, such as /api/v1; empty for what
	// only podstead has, which local lists.
	path  string
	Local func(ctx context.Context, c *client.Client) ([]json.RawMessage, error)
	// head and row make the table here; without row it is the server's.
	Header, WideHeader []string
	Row                func(o *Object, now time.Time) ([]string, error)
	// prepare asks for what row needs besides the object; nil for nothing.
	Prepare func(ctx context.Context, c *client.Client) error
	// names are further names by which an object is asked for.
	aliases func(o *Object) []string
}

// kinds are those that are known here. What else the daemon's discovery names
// can be got too, in the server's tables.
func Kinds() []*Kind {
	return []*Kind{
		{
			Name: "pods", Singular: "pod", ShortNames: []string{"po"}, Namespaced: true, path: "/api/v1",
			Header: podHead, WideHeader: podHeadWide, Row: podCells, aliases: PodNames,
		},
		{
			Name: "events", Singular: "event", ShortNames: []string{"ev"}, Namespaced: true, path: "/api/v1",
			Header: eventHead, WideHeader: eventHeadWide, Row: eventCells, aliases: eventNames,
		},
		{Name: "nodes", Singular: "node", ShortNames: []string{"no"}, path: "/api/v1"},
		{Name: "namespaces", Singular: "namespace", ShortNames: []string{"ns"}, path: "/api/v1"},
		objectKind("configmaps", "configmap", manifest.KindConfigMap, "cm"),
		objectKind("secrets", "secret", manifest.KindSecret),
		objectKind("persistentvolumeclaims", "persistentvolumeclaim", manifest.KindClaim, "pvc"),
		classKind("priorityclasses", "priorityclass", manifest.KindPriorityClass, "pc"),
		classKind("runtimeclasses", "runtimeclass", manifest.KindRuntimeClass),
		{
			Name: "images", Singular: "image", Local: localImages, aliases: imageNames,
			Header: imageHead, Row: imageCells,
		},
		{
			Name: "volumes", Singular: "volume", ShortNames: []string{"vol", "pv"}, Namespaced: true, Local: localVolumes,
			Header: volumeHead, Row: volumeCells,
		},
	}
}

func (k *Kind) Matches(word string) bool {
	word = strings.ToLower(word)
	if word == "all" { // kubectl's word for what runs
		word = "pods"
	}
	return word == k.Name || word == k.Singular || slices.Contains(k.ShortNames, word)
}

// findKind is the kind that a word means. The daemon is asked only for a word
// that is not known here.
func FindKind(ctx context.Context, c *client.Client, word string) (*Kind, error) {
	known := Kinds()
	for _, k := range known {
		if k.Matches(word) {
			return k, nil
		}
	}
	var served metav1.APIResourceList
	if err := c.Get(ctx, "/api/v1", &served); err != nil {
		return nil, err
	}
	names := []string{}
	for _, r := range served.APIResources {
		if strings.Contains(r.Name, "/") || !slices.Contains(r.Verbs, "list") {
			continue
		}
		k := &Kind{Name: r.Name, Singular: cmp.Or(r.SingularName, r.Name), ShortNames: r.ShortNames, Namespaced: r.Namespaced, path: "/api/v1"}
		if k.Matches(word) {
			return k, nil
		}
		if !slices.ContainsFunc(known, func(other *Kind) bool { return other.Name == k.Name }) {
			known = append(known, k)
		}
	}
	all := []string{}
	for _, k := range known {
		names = append(names, k.Name)
		all = append(append(all, k.Name, k.Singular), k.ShortNames...)
	}
	hint := ""
	if near := suggest.Nearest(strings.ToLower(word), all); near != "" {
		hint = fmt.Sprintf("; did you mean %s?", near)
	}
	return nil, &UsageError{fmt.Errorf("there is no %q to get%s It can be one of %s", word, cmp.Or(hint, "."), strings.Join(names, ", "))}
}

// usageFault reports that the command line asks for something that does not exist or
// cannot be asked for.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }

func (e *UsageError) Unwrap() error { return e.Err }

// answersTo reports whether an object is the one that a name means.
func (k *Kind) MatchesName(o *Object, name string) bool {
	if o.Name == name {
		return true
	}
	return k.aliases != nil && slices.Contains(k.aliases(o), name)
}

// podNames: a pod is also called what its manifest calls it.
func PodNames(o *Object) []string {
	p := v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: o.Name, Annotations: o.Annotations}}
	var spec struct{ Spec struct{ NodeName string } }
	if o.Decode(&spec) == nil {
		p.Spec.NodeName = spec.Spec.NodeName
	}
	return []string{manifest.BaseName(&p)}
}

// eventNames: an event is also called what it is about.
func eventNames(o *Object) []string {
	var e v1.Event
	if o.Decode(&e) != nil {
		return nil
	}
	names := []string{e.InvolvedObject.Name}
	if base, ok := strings.CutSuffix(e.InvolvedObject.Name, "-"+strings.ToLower(e.Source.Host)); ok && e.InvolvedObject.Kind == "Pod" {
		names = append(names, base)
	}
	return names
}

// kindName is what an object of a kind calls itself, such as Pod or ConfigMap.
func KindName(k *Kind) string {
	for _, name := range []string{"Pod", "Node", "Namespace", "Event", "ConfigMap", "Secret", "PersistentVolumeClaim", "PriorityClass", "RuntimeClass"} {
		if strings.EqualFold(name, k.Singular) {
			return name
		}
	}
	return terminal.Title(k.Singular)
}

func MustKind(name string) *Kind {
	all := Kinds()
	return all[slices.IndexFunc(all, func(k *Kind) bool { return k.Name == name })]
}

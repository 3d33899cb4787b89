package objects

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/api/client"
	"github.com/podstead/podstead/cli/terminal"
	"github.com/podstead/podstead/internal/suggest"
	"github.com/podstead/podstead/manifest"
)

// Kind is a resource type that can be listed.
type Kind struct {
	Name, Singular string
	ShortNames     []string
	Namespaced     bool
	// path is the API group path in the Kubernetes API, such as /api/v1; empty for
	// a type that only podstead has.
	path string
	// Local lists the objects of a type that only podstead has.
	Local func(ctx context.Context, c *client.Client) ([]json.RawMessage, error)
	// Header and Row define the table. Without Row the server's table is used.
	// WideHeader are the additional columns of -o wide.
	Header, WideHeader []string
	Row                func(o *Object, now time.Time) ([]string, error)
	// Prepare requests the data that Row needs in addition to the object; nil for
	// none.
	Prepare func(ctx context.Context, c *client.Client) error
	// aliases returns further names of an object; nil for none.
	aliases func(o *Object) []string
}

// Kinds returns all types.
func Kinds() []*Kind {
	return []*Kind{
		{
			Name: "pods", Singular: "pod", ShortNames: []string{"po"}, Namespaced: true, path: "/api/v1",
			Header: podHeader, WideHeader: podWideHeader, Row: podCells, aliases: PodNames,
		},
		{
			Name: "events", Singular: "event", ShortNames: []string{"ev"}, Namespaced: true, path: "/api/v1",
			Header: eventHeader, WideHeader: eventWideHeader, Row: eventCells, aliases: eventNames,
		},
		{Name: "nodes", Singular: "node", ShortNames: []string{"no"}, path: "/api/v1"},
		{Name: "namespaces", Singular: "namespace", ShortNames: []string{"ns"}, path: "/api/v1"},
		objectKind("configmaps", "configmap", manifest.KindConfigMap, "cm"),
		objectKind("secrets", "secret", manifest.KindSecret),
		{Name: "persistentvolumeclaims", Singular: "persistentvolumeclaim", ShortNames: []string{"pvc"}, Namespaced: true,
			path: "/api/v1"},
		{Name: "persistentvolumes", Singular: "persistentvolume", ShortNames: []string{"pv"}, path: "/api/v1"},
		{Name: "storageclasses", Singular: "storageclass", ShortNames: []string{"sc"}, path: "/apis/storage.k8s.io/v1"},
		serviceKind(),
		classKind("priorityclasses", "priorityclass", manifest.KindPriorityClass, "pc"),
		classKind("runtimeclasses", "runtimeclass", manifest.KindRuntimeClass),
		{
			Name: "images", Singular: "image", Local: localImages, aliases: imageNames,
			Header: imageHeader, Row: imageCells,
		},
		{
			Name: "volumes", Singular: "volume", ShortNames: []string{"vol"}, Namespaced: true, Local: localVolumes,
			Header: volumeHeader, WideHeader: VolumeOriginHeader, Row: volumeCells,
		},
	}
}

// Matches reports whether a word on the command line means this type.
func (k *Kind) Matches(word string) bool {
	word = strings.ToLower(word)
	if word == "all" { // kubectl's name for the workload types
		word = "pods"
	}
	return word == k.Name || word == k.Singular || slices.Contains(k.ShortNames, word)
}

// FindKind returns the type that a word on the command line means. It does not ask the
// daemon: a typing error is reported also if that hangs.
func FindKind(word string) (*Kind, error) {
	known := Kinds()
	var names, all []string
	for _, k := range known {
		if k.Matches(word) {
			return k, nil
		}
		names = append(names, k.Name)
		all = append(append(all, k.Name, k.Singular), k.ShortNames...)
	}
	hint := ""
	if near := suggest.Nearest(strings.ToLower(word), all); near != "" {
		hint = fmt.Sprintf("; did you mean %s?", near)
	}
	return nil,
		&UsageError{fmt.Errorf("unknown resource type %q%s; known types are %s", word, hint, strings.Join(names, ", "))}
}

// UsageError reports that the command line requests something that does not exist or is not
// possible.
type UsageError struct{ Err error }

// Error returns the text of Err.
func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *UsageError) Unwrap() error { return e.Err }

// MatchesName reports whether a name on the command line means the object.
func (k *Kind) MatchesName(o *Object, name string) bool {
	if o.Name == name {
		return true
	}
	return k.aliases != nil && slices.Contains(k.aliases(o), name)
}

// PodNames returns the further name of a pod: the one in its manifest.
func PodNames(o *Object) []string {
	p := v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: o.Name, Annotations: o.Annotations}}
	var spec struct{ Spec struct{ NodeName string } }
	if o.Decode(&spec) == nil {
		p.Spec.NodeName = spec.Spec.NodeName
	}
	return []string{manifest.BaseName(&p)}
}

// eventNames returns the further names of an event: those of the object it is about.
func eventNames(o *Object) []string {
	var e v1.Event
	if o.Decode(&e) != nil {
		return nil
	}
	names := []string{e.InvolvedObject.Name}
	if base, ok := strings.CutSuffix(e.InvolvedObject.Name, "-"+strings.ToLower(e.Source.Host)); ok &&
		e.InvolvedObject.Kind == "Pod" {
		names = append(names, base)
	}
	return names
}

// KindName returns the value of an object's field kind, such as Pod or ConfigMap.
func KindName(k *Kind) string {
	for _, name := range []string{"Pod", "Node", "Namespace", "Event", "ConfigMap", "Secret", "PersistentVolumeClaim",
		"Service", "PriorityClass", "RuntimeClass", "PersistentVolume", "StorageClass"} {
		if strings.EqualFold(name, k.Singular) {
			return name
		}
	}
	return terminal.Title(k.Singular)
}

// MustKind returns the known type of a plural name; it panics for another name.
func MustKind(name string) *Kind {
	all := Kinds()
	return all[slices.IndexFunc(all, func(k *Kind) bool { return k.Name == name })]
}

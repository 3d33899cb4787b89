package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/internal/podtable"
	"github.com/podstead/podstead/manifest"
)

// The tables of the kinds that have one of their own here: kubectl's columns,
// and what only this daemon knows.
var (
	podHead       = []string{"NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE"}
	podHeadWide   = []string{"IP", "NODE", "SOURCE", "MESSAGE"}
	eventHead     = []string{"NAMESPACE", "LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"}
	eventHeadWide = []string{"FROM", "FIRST SEEN", "COUNT", "NAME"}
	imageHead     = []string{"IMAGE", "ID", "SIZE", "STATE", "LAST USED"}
	volumeHead    = []string{"NAMESPACE", "CLAIM", "REQUESTED", "USED BY", "PATH"}
)

func podCells(o *object, now time.Time) ([]string, error) {
	var p v1.Pod
	if err := o.into(&p); err != nil {
		return nil, fmt.Errorf("cannot read a pod that podstead sent: %w", err)
	}
	ready, restarts, last := podtable.Tally(&p)
	return []string{
		p.Namespace, p.Name, fmt.Sprintf("%d/%d", ready, podtable.Containers(&p)),
		podtable.State(&p), podtable.Restarts(restarts, last, now), podtable.Age(&p, now),
		orNone(p.Status.PodIP), orNone(p.Spec.NodeName), orNone(p.Annotations[podinfo.AnnotationSource]), orNone(oneLine(podtable.Message(&p))),
	}, nil
}

func eventCells(o *object, now time.Time) ([]string, error) {
	var e v1.Event
	if err := o.into(&e); err != nil {
		return nil, fmt.Errorf("cannot read an event that podstead sent: %w", err)
	}
	return []string{
		e.Namespace, eventAge(&e, now), e.Type, e.Reason, involved(&e), oneLine(e.Message),
		orNone(e.Source.Component), duration.HumanDuration(now.Sub(e.FirstTimestamp.Time)), fmt.Sprint(max(e.Count, 1)), e.Name,
	}, nil
}

func involved(e *v1.Event) string {
	return strings.ToLower(e.InvolvedObject.Kind) + "/" + e.InvolvedObject.Name
}

// rawsOf asks for a list that only podstead has.
func rawsOf(ctx context.Context, c *client, path string) ([]json.RawMessage, error) {
	var list []json.RawMessage
	return list, c.get(ctx, path, &list)
}

func localImages(ctx context.Context, c *client) ([]json.RawMessage, error) {
	return rawsOf(ctx, c, "/podstead/v1/images")
}

func imageNames(o *object) []string {
	var m image
	if o.into(&m) != nil {
		return nil
	}
	return append(m.Tags, m.ID, shortID(m.ID))
}

func imageCells(o *object, now time.Time) ([]string, error) {
	var m image
	if err := o.into(&m); err != nil {
		return nil, fmt.Errorf("cannot read an image that podstead sent: %w", err)
	}
	return imageTable([]image{m}, now).rows[0], nil
}

func localVolumes(ctx context.Context, c *client) ([]json.RawMessage, error) {
	return rawsOf(ctx, c, "/podstead/v1/volumes")
}

func volumeCells(o *object, _ time.Time) ([]string, error) {
	var v persistentVolume
	if err := o.into(&v); err != nil {
		return nil, fmt.Errorf("cannot read a volume that podstead sent: %w", err)
	}
	return []string{v.Namespace, v.Name, orNone(v.Requested), orNone(strings.Join(v.Pods, ",")), v.Path}, nil
}

// objectKind is a kind of the objects beside pods. The table tells their keys
// and manifests; what Secrets hold is not in it.
func objectKind(name, singular, kindName string, short ...string) *kind {
	k := &kind{
		name: name, singular: singular, short: short, namespaced: true, path: "/api/v1",
		head: []string{"NAMESPACE", "NAME", "KEYS", "MANIFEST"},
	}
	switch kindName {
	case manifest.KindSecret:
		k.head = []string{"NAMESPACE", "NAME", "TYPE", "KEYS", "MANIFEST"}
	case manifest.KindClaim:
		k.head = []string{"NAMESPACE", "NAME", "MANIFEST"}
	}
	known := map[string]localObject{}
	k.prepare = func(ctx context.Context, c *client) error {
		all, err := localObjects(ctx, c, kindName)
		for _, l := range all {
			known[l.Namespace+"/"+l.Name] = l
		}
		return err
	}
	k.row = func(o *object, _ time.Time) ([]string, error) {
		l := known[o.key()]
		row := []string{o.Namespace, o.Name}
		if kindName == manifest.KindSecret {
			row = append(row, l.Type)
		}
		if kindName != manifest.KindClaim {
			row = append(row, orNone(strings.Join(l.Keys, ",")))
		}
		return append(row, orNone(l.Manifest)), nil
	}
	return k
}

// classKind is a kind of the classes that manifests declare.
func classKind(name, singular, kindName string, short ...string) *kind {
	return &kind{
		name: name, singular: singular, short: short, head: []string{"NAME", "MANIFEST"},
		local: func(ctx context.Context, c *client) ([]json.RawMessage, error) {
			all, err := localObjects(ctx, c, kindName)
			var list []json.RawMessage
			for _, l := range all {
				list = append(list, l.raw)
			}
			return list, err
		},
		row: func(o *object, _ time.Time) ([]string, error) {
			var l localObject
			if err := o.into(&l); err != nil {
				return nil, fmt.Errorf("cannot read an object that podstead sent: %w", err)
			}
			return []string{l.Name, l.Manifest}, nil
		},
	}
}

// localObjects are the objects of a kind as podstead's own API tells of them.
func localObjects(ctx context.Context, c *client, kindName string) (list []localObject, err error) {
	all, err := rawsOf(ctx, c, "/podstead/v1/objects")
	if err != nil {
		return nil, err
	}
	for _, raw := range all {
		l := localObject{raw: raw}
		if err := json.Unmarshal(raw, &l); err != nil {
			return nil, fmt.Errorf("cannot read an object that podstead sent: %w", err)
		}
		if l.Kind == kindName {
			list = append(list, l)
		}
	}
	return list, nil
}

// localObject is what the daemon tells of an object beside pods.
type localObject struct {
	Kind, Namespace, Name, Source, Manifest, Revision, Type string
	Keys                                                    []string

	raw json.RawMessage
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

func orNone(s string) string {
	if s == "" {
		return "<none>"
	}
	return s
}

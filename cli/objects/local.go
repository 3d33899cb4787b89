package objects

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/podstead/podstead/api"
	"github.com/podstead/podstead/api/client"
	"github.com/podstead/podstead/cli/terminal"
	"github.com/podstead/podstead/manifest"
)

// listRaw requests a list of podstead's own API.
func listRaw(ctx context.Context, c *client.Client, path string) ([]json.RawMessage, error) {
	var list []json.RawMessage
	err := c.Get(ctx, path, &list)
	return list, err
}

// objectKind returns the type of objects that manifests declare in addition to pods. Its
// table shows their keys and manifests, not the data of Secrets.
func objectKind(name, singular, kindName string, short ...string) *Kind {
	k := &Kind{
		Name: name, Singular: singular, ShortNames: short, Namespaced: true, path: "/api/v1",
		Header: []string{"NAMESPACE", "NAME", "KEYS", "MANIFEST"},
	}
	if kindName == manifest.KindSecret {
		k.Header = []string{"NAMESPACE", "NAME", "TYPE", "KEYS", "MANIFEST"}
	}
	known := map[string]api.ManifestObject{}
	k.Prepare = func(ctx context.Context, c *client.Client) error {
		all, err := c.Objects(ctx)
		for _, l := range all {
			if l.Kind == kindName {
				known[l.Namespace+"/"+l.Name] = l
			}
		}
		return err
	}
	k.Row = func(o *Object, _ time.Time) ([]string, error) {
		l := known[o.Key()]
		row := []string{o.Namespace, o.Name}
		if kindName == manifest.KindSecret {
			row = append(row, l.Type)
		}
		if kindName != manifest.KindClaim {
			row = append(row, terminal.OrNone(strings.Join(l.Keys, ",")))
		}
		return append(row, terminal.OrNone(l.Manifest)), nil
	}
	return k
}

// serviceKind returns the type of Services that manifests declare.
func serviceKind() *Kind {
	k := classKind("services", "service", manifest.KindService, "svc")
	k.Namespaced, k.Header = true, []string{"NAMESPACE", "NAME", "MANIFEST"}
	k.Row = func(o *Object, _ time.Time) ([]string, error) {
		var l api.ManifestObject
		if err := o.Decode(&l); err != nil {
			return nil, err
		}
		return []string{l.Namespace, l.Name, l.Manifest}, nil
	}
	return k
}

// classKind returns the type of classes that manifests declare.
func classKind(name, singular, kindName string, short ...string) *Kind {
	return &Kind{
		Name: name, Singular: singular, ShortNames: short, Header: []string{"NAME", "MANIFEST"},
		Local: func(ctx context.Context, c *client.Client) ([]json.RawMessage, error) {
			return rawObjects(ctx, c, kindName)
		},
		Row: func(o *Object, _ time.Time) ([]string, error) {
			var l api.ManifestObject
			if err := o.Decode(&l); err != nil {
				return nil, err
			}
			return []string{l.Name, l.Manifest}, nil
		},
	}
}

// rawObjects lists the objects of a kind that manifests declare, as the daemon sent them.
func rawObjects(ctx context.Context, c *client.Client, kindName string) (list []json.RawMessage, err error) {
	all, err := listRaw(ctx, c, api.Path+"/objects")
	if err != nil {
		return nil, err
	}
	for _, raw := range all {
		var o api.ManifestObject
		if err := json.Unmarshal(raw, &o); err != nil {
			return nil, fmt.Errorf("failed to decode object from the daemon: %w", err)
		}
		if o.Kind == kindName {
			list = append(list, raw)
		}
	}
	return list, nil
}

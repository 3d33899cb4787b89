package objects

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/podstead/podstead/api/client"
	"github.com/podstead/podstead/internal/suggest"
)

// Query selects objects of a kind.
type Query struct {
	Kind      *Kind
	Namespace string
	// Labels and Fields are selectors, which the daemon applies.
	Labels, Fields string
	// Names are the names of the objects; empty for all.
	Names []string
	// Table requests the server's table for a kind without a table of its own.
	Table bool
	// MetadataOnly requests the server's table with only the metadata of the objects,
	// which for many pods is decoded ten times faster.
	MetadataOnly bool
}

func (q Query) path(more url.Values) string {
	path := q.Kind.path
	if q.Namespace != "" && q.Kind.Namespaced {
		path += "/namespaces/" + url.PathEscape(q.Namespace)
	}
	v := url.Values{}
	for key, value := range map[string]string{"labelSelector": q.Labels, "fieldSelector": q.Fields} {
		if value != "" {
			v.Set(key, value)
		}
	}
	switch {
	case q.accept() == "":
	case q.MetadataOnly:
		v.Set("includeObject", "Metadata")
	default:
		v.Set("includeObject", "Object")
	}
	for key, values := range more {
		v[key] = values
	}
	path += "/" + q.Kind.Name
	if len(v) > 0 {
		path += "?" + v.Encode()
	}
	return path
}

func (q Query) accept() string {
	if q.MetadataOnly || q.Table && q.Kind.Row == nil {
		return client.AcceptTable
	}
	return ""
}

// List returns the objects in the daemon's order, by namespace and name. Events are ordered
// by when they last occurred.
func (q Query) List(ctx context.Context, c *client.Client) (*List, error) {
	l, err := q.listAll(ctx, c)
	if err != nil {
		return nil, err
	}
	l.Objects = slices.DeleteFunc(l.Objects, func(o *Object) bool { return !q.matches(o) })
	if err := q.prepare(ctx, c); err != nil {
		return nil, err
	}
	if q.Kind.Name == "events" {
		if err := sortEvents(l.Objects); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// prepare requests the data that the table needs.
func (q Query) prepare(ctx context.Context, c *client.Client) error {
	if !q.Table || q.Kind.Prepare == nil {
		return nil
	}
	return q.Kind.Prepare(ctx, c)
}

func (q Query) listAll(ctx context.Context, c *client.Client) (*List, error) {
	if q.Kind.Local != nil {
		return q.listLocal(ctx, c)
	}
	var body json.RawMessage
	if err := c.GetAs(ctx, q.path(nil), q.accept(), &body); err != nil {
		var status *client.StatusError
		if errors.As(err, &status) && status.Code == http.StatusBadRequest {
			return nil, &UsageError{errors.New(status.Message)} // an invalid selector
		}
		return nil, err
	}
	return parseList(body)
}

func (q Query) listLocal(ctx context.Context, c *client.Client) (*List, error) {
	if q.Labels != "" || q.Fields != "" {
		return nil, &UsageError{fmt.Errorf("%s cannot be selected by labels or fields", q.Kind.Name)}
	}
	raws, err := q.Kind.Local(ctx, c)
	if err != nil {
		return nil, err
	}
	l := &List{}
	for _, raw := range raws {
		o, err := NewObject(raw)
		if err != nil {
			return nil, err
		}
		// In podstead's own API the name is not in metadata.
		var own struct{ Namespace, Name string }
		if err := o.Decode(&own); err != nil {
			return nil, err
		}
		o.Namespace, o.Name = own.Namespace, own.Name
		l.Objects = append(l.Objects, o)
	}
	return l, nil
}

// matches reports whether the object has one of the names and is in the namespace.
func (q Query) matches(o *Object) bool {
	if q.Namespace != "" && q.Kind.Namespaced && o.Namespace != q.Namespace {
		return false
	}
	return len(q.Names) == 0 || slices.ContainsFunc(q.Names, func(name string) bool { return q.Kind.MatchesName(o, name) })
}

// Missing returns the names that no object has.
func (q Query) Missing(objects []*Object) []string {
	var missing []string
	for _, name := range q.Names {
		if !slices.ContainsFunc(objects, func(o *Object) bool { return q.Kind.MatchesName(o, name) }) {
			missing = append(missing, name)
		}
	}
	return missing
}

// Suggestion returns a hint at the name that was probably meant, empty if there is none.
func (q Query) Suggestion(ctx context.Context, c *client.Client, name string) string {
	q.Names, q.Namespace = nil, ""
	l, err := q.List(ctx, c)
	if err != nil {
		return ""
	}
	var names []string
	for _, o := range l.Objects {
		if q.Kind.MatchesName(o, name) {
			return "; it exists in namespace " + o.Namespace
		}
		names = append(names, o.Name)
		if q.Kind.aliases != nil {
			names = append(names, q.Kind.aliases(o)...)
		}
	}
	if near := suggest.Nearest(name, names); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return ""
}

// InNamespace returns " in namespace NS" for a message, empty for all namespaces.
func InNamespace(ns string) string {
	if ns == "" {
		return ""
	}
	return " in namespace " + ns
}

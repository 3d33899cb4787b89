package objects

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/podstead/podstead/cmd/podstead/cli/client"
	"github.com/podstead/podstead/internal/suggest"
)

// query is which objects of a kind are wanted, and in which form.
type Query struct {
	Kind      *Kind
	Namespace string
	// labels and fields are selectors, which the daemon applies.
	Labels, Fields string
	// names are those wanted, all if there are none.
	Names []string
	// table asks for the server's table of objects that have none here.
	Table bool
	// short asks for the server's table without what is in the objects: that
	// of many pods is read ten times faster.
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

// list asks for the objects, in the daemon's order: by namespace and name.
// Events come in the order in which they happened last.
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

// prepare asks for what a table needs.
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
		var refused *client.StatusError
		if errors.As(err, &refused) && refused.Code == http.StatusBadRequest {
			return nil, &UsageError{errors.New(refused.Message)} // a selector
		}
		return nil, err
	}
	return parseList(body)
}

func (q Query) listLocal(ctx context.Context, c *client.Client) (*List, error) {
	if q.Labels != "" || q.Fields != "" {
		return nil, &UsageError{fmt.Errorf("%s cannot be chosen by labels or fields", q.Kind.Name)}
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
		// podstead's own answers have these at the top.
		var own struct{ Namespace, Name string }
		if err := o.Decode(&own); err != nil {
			return nil, err
		}
		o.Namespace, o.Name = own.Namespace, own.Name
		l.Objects = append(l.Objects, o)
	}
	return l, nil
}

// wants reports whether the object is one of the names, and of the namespace.
func (q Query) matches(o *Object) bool {
	if q.Namespace != "" && q.Kind.Namespaced && o.Namespace != q.Namespace {
		return false
	}
	return len(q.Names) == 0 || slices.ContainsFunc(q.Names, func(name string) bool { return q.Kind.MatchesName(o, name) })
}

// missing are the names that no object answers to.
func (q Query) Missing(objects []*Object) []string {
	var missing []string
	for _, name := range q.Names {
		if !slices.ContainsFunc(objects, func(o *Object) bool { return q.Kind.MatchesName(o, name) }) {
			missing = append(missing, name)
		}
	}
	return missing
}

// near is the name that may have been meant.
func (q Query) Suggestion(ctx context.Context, c *client.Client, name string) string {
	q.Names, q.Namespace = nil, ""
	l, err := q.List(ctx, c)
	if err != nil {
		return ""
	}
	var names []string
	for _, o := range l.Objects {
		if q.Kind.MatchesName(o, name) {
			return "; there is one in namespace " + o.Namespace
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

func InNamespace(ns string) string {
	if ns == "" {
		return ""
	}
	return " in namespace " + ns
}

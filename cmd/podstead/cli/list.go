package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/internal/suggest"
)

// query is which objects of a kind are wanted, and in which form.
type query struct {
	kind      *kind
	namespace string
	// labels and fields are selectors, which the daemon applies.
	labels, fields string
	// names are those wanted, all if there are none.
	names []string
	// table asks for the server's table of objects that have none here.
	table bool
	// short asks for the server's table without what is in the objects: that
	// of many pods is read ten times faster.
	short bool
}

func (q query) path(more url.Values) string {
	path := q.kind.path
	if q.namespace != "" && q.kind.namespaced {
		path += "/namespaces/" + url.PathEscape(q.namespace)
	}
	v := url.Values{}
	for key, value := range map[string]string{"labelSelector": q.labels, "fieldSelector": q.fields} {
		if value != "" {
			v.Set(key, value)
		}
	}
	switch {
	case q.accept() == "":
	case q.short:
		v.Set("includeObject", "Metadata")
	default:
		v.Set("includeObject", "Object")
	}
	for key, values := range more {
		v[key] = values
	}
	path += "/" + q.kind.name
	if len(v) > 0 {
		path += "?" + v.Encode()
	}
	return path
}

func (q query) accept() string {
	if q.short || q.table && q.kind.row == nil {
		return asTable
	}
	return ""
}

// list asks for the objects, in the daemon's order: by namespace and name.
// Events come in the order in which they happened last.
func (q query) list(ctx context.Context, c *client) (*listing, error) {
	l, err := q.listAll(ctx, c)
	if err != nil {
		return nil, err
	}
	l.objects = slices.DeleteFunc(l.objects, func(o *object) bool { return !q.wants(o) })
	if err := q.prepare(ctx, c); err != nil {
		return nil, err
	}
	if q.kind.name == "events" {
		if err := sortEvents(l.objects); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// prepare asks for what a table needs.
func (q query) prepare(ctx context.Context, c *client) error {
	if !q.table || q.kind.prepare == nil {
		return nil
	}
	return q.kind.prepare(ctx, c)
}

func (q query) listAll(ctx context.Context, c *client) (*listing, error) {
	if q.kind.local != nil {
		return q.listLocal(ctx, c)
	}
	var body json.RawMessage
	if err := c.fetch(ctx, q.path(nil), q.accept(), &body); err != nil {
		var refused *refusal
		if errors.As(err, &refused) && refused.code == http.StatusBadRequest {
			return nil, usageError(errors.New(refused.text)) // a selector
		}
		return nil, err
	}
	return readListing(body)
}

func (q query) listLocal(ctx context.Context, c *client) (*listing, error) {
	if q.labels != "" || q.fields != "" {
		return nil, usageError(fmt.Errorf("%s cannot be chosen by labels or fields", q.kind.name))
	}
	raws, err := q.kind.local(ctx, c)
	if err != nil {
		return nil, err
	}
	l := &listing{}
	for _, raw := range raws {
		o, err := newObject(raw)
		if err != nil {
			return nil, err
		}
		// podstead's own answers have these at the top.
		var own struct{ Namespace, Name string }
		if err := o.into(&own); err != nil {
			return nil, err
		}
		o.Namespace, o.Name = own.Namespace, own.Name
		l.objects = append(l.objects, o)
	}
	return l, nil
}

// wants reports whether the object is one of the names, and of the namespace.
func (q query) wants(o *object) bool {
	if q.namespace != "" && q.kind.namespaced && o.Namespace != q.namespace {
		return false
	}
	return len(q.names) == 0 || slices.ContainsFunc(q.names, func(name string) bool { return q.kind.answersTo(o, name) })
}

// missing are the names that no object answers to.
func (q query) missing(objects []*object) []string {
	var missing []string
	for _, name := range q.names {
		if !slices.ContainsFunc(objects, func(o *object) bool { return q.kind.answersTo(o, name) }) {
			missing = append(missing, name)
		}
	}
	return missing
}

// near is the name that may have been meant.
func (q query) near(ctx context.Context, c *client, name string) string {
	q.names, q.namespace = nil, ""
	l, err := q.list(ctx, c)
	if err != nil {
		return ""
	}
	var names []string
	for _, o := range l.objects {
		if q.kind.answersTo(o, name) {
			return "; there is one in namespace " + o.Namespace
		}
		names = append(names, o.Name)
		if q.kind.names != nil {
			names = append(names, q.kind.names(o)...)
		}
	}
	if near := suggest.Nearest(name, names); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return ""
}

func sortEvents(objects []*object) error {
	at := map[*object]v1.Event{}
	for _, o := range objects {
		var e v1.Event
		if err := o.into(&e); err != nil {
			return fmt.Errorf("cannot read an event that podstead sent: %w", err)
		}
		at[o] = e
	}
	slices.SortStableFunc(objects, func(a, b *object) int {
		x, y := at[a], at[b]
		return cmp.Or(x.LastTimestamp.Compare(y.LastTimestamp.Time), x.FirstTimestamp.Compare(y.FirstTimestamp.Time))
	})
	return nil
}

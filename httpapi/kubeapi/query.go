package kubeapi

import (
	"mime"
	"net/http"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/podstead/podstead/httpapi/apistatus"
)

// form is the requested form of the response.
type form struct {
	table bool
	// include reports which part of its object each row of a table contains.
	include metav1.IncludeObjectPolicy
}

// formOf parses the Accept header: JSON objects, or a table of them. Clients that prefer
// protobuf or CBOR accept JSON as well.
func formOf(r *http.Request) (form, *metav1.Status) {
	f := form{include: metav1.IncludeMetadata}
	if policy := r.URL.Query().Get("includeObject"); policy != "" {
		f.include = metav1.IncludeObjectPolicy(policy)
		switch f.include {
		case metav1.IncludeNone, metav1.IncludeMetadata, metav1.IncludeObject:
		default:
			return f, badRequest("includeObject=%q: must be None, Metadata or Object", policy)
		}
	}
	accept := strings.Join(r.Header.Values("Accept"), ",")
	if strings.TrimSpace(accept) == "" {
		return f, nil
	}
	for _, desired := range strings.Split(accept, ",") {
		kind, params, err := mime.ParseMediaType(desired)
		if err != nil || kind != "application/json" && kind != "application/*" && kind != "*/*" {
			continue
		}
		switch {
		case params["as"] == "":
			return f, nil
		case params["as"] == "Table" && params["v"] == "v1" && params["g"] == "meta.k8s.io":
			f.table = true
			return f, nil
		}
	}
	return f, apistatus.New(http.StatusNotAcceptable, "Accept: %q is not supported; must include application/json", accept)
}

// selection selects the objects of a resource by namespace, labels and fields.
type selection struct {
	namespace string
	labels    labels.Selector
	fields    fields.Selector
	fieldsOf  func(Object) fields.Set
	// alias is the name in a manifest by which the client selects one pod. It then sees the pod by
	// this name, except in a table: kubectl wait looks for the name that it has asked for.
	alias string
}

func selectionOf(r *http.Request, res *resource) (selection, *metav1.Status) {
	q := r.URL.Query()
	c := selection{namespace: r.PathValue("namespace"), fieldsOf: res.fields}
	var err error
	if c.labels, err = labels.Parse(q.Get("labelSelector")); err != nil {
		return c, badRequest("labelSelector %q: %v; use for example app=web,tier!=test", q.Get("labelSelector"), err)
	}
	if c.fields, err = fields.ParseSelector(q.Get("fieldSelector")); err != nil {
		return c, badRequest("fieldSelector: %v", err)
	}
	if res.fullNames != nil {
		asked, _ := c.fields.RequiresExactMatch("metadata.name")
		c.fields = res.fullNames(c.fields, c.namespace)
		if full, _ := c.fields.RequiresExactMatch("metadata.name"); full != asked {
			c.alias = asked
		}
	}
	known := res.fields(res.empty)
	for _, requirement := range c.fields.Requirements() {
		if _, ok := known[requirement.Field]; !ok {
			return c, badRequest("fieldSelector: %q is not a supported field of %s", requirement.Field, res.name)
		}
	}
	if _, err := strconv.ParseInt(q.Get("limit"), 10, 64); err != nil && q.Get("limit") != "" {
		return c, badRequest("limit=%q: must be a number", q.Get("limit"))
	}
	if q.Get("continue") != "" {
		// Lists are never paged, so that this API has issued no token.
		return c, apistatus.New(http.StatusGone, "continue: unknown token; list again")
	}
	return c, nil
}

// matches reports whether an object is selected. A nil entry is not.
func (c selection) matches(e *entry) bool {
	if e == nil || c.namespace != "" && e.object.GetNamespace() != c.namespace {
		return false
	}
	return c.labels.Matches(labels.Set(e.object.GetLabels())) &&
		(c.fields.Empty() || c.fields.Matches(c.fieldsOf(e.object)))
}

// bytes returns a selected object as JSON.
func (c selection) bytes(e *entry) []byte {
	if c.alias == "" {
		return e.bytes()
	}
	own := e.object.DeepCopyObject().(Object)
	own.SetName(c.alias)
	return mustJSON(own)
}

func (c selection) filter(all []*entry) []*entry {
	selected := make([]*entry, 0, len(all))
	for _, e := range all {
		if c.matches(e) {
			selected = append(selected, e)
		}
	}
	return selected
}

// boolParam parses a boolean query parameter, false if it is absent.
func boolParam(r *http.Request, name string) (bool, *metav1.Status) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return false, nil
	}
	value, err := strconv.ParseBool(text)
	if err != nil {
		return false, badRequest("%s=%q: must be true or false", name, text)
	}
	return value, nil
}

// tableOf returns a list as a table.
func (f form) tableOf(res *resource, list []*entry, version string) *metav1.Table {
	t := &metav1.Table{
		TypeMeta:          metav1.TypeMeta{Kind: "Table", APIVersion: "meta.k8s.io/v1"},
		ListMeta:          metav1.ListMeta{ResourceVersion: version},
		ColumnDefinitions: res.columns,
		Rows:              make([]metav1.TableRow, 0, len(list)),
	}
	for _, e := range list {
		t.Rows = append(t.Rows, metav1.TableRow{Cells: res.row(e.object), Object: f.objectOf(e)})
	}
	return t
}

// objectOf returns the part of an object that a table row contains.
func (f form) objectOf(e *entry) runtime.RawExtension {
	switch f.include {
	case metav1.IncludeObject:
		return runtime.RawExtension{Raw: e.bytes()}
	case metav1.IncludeMetadata:
		return runtime.RawExtension{Raw: e.metadata()}
	}
	return runtime.RawExtension{}
}

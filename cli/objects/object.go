package objects

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "k8s.io/apimachinery/pkg/util/json"
)

// Object is an object of the Kubernetes API as the daemon sent it, so that scripts also get
// fields that this program does not know.
type Object struct {
	raw json.RawMessage
	metav1.PartialObjectMetadata
	// Cells are the cells of the server's table, nil if no table was requested.
	Cells []any
	// Cause reports why a pod does not run or is not ready, if that was looked for.
	Cause string
	value any
}

// NewObject returns the object of a JSON text.
func NewObject(raw json.RawMessage) (*Object, error) {
	o := &Object{raw: raw}
	if err := json.Unmarshal(raw, &o.PartialObjectMetadata); err != nil {
		return nil, fmt.Errorf("failed to decode object from the daemon: %w", err)
	}
	return o, nil
}

// Tree returns the object as maps and lists. Whole numbers are int64, others float64.
func (o *Object) Tree() any {
	if o.value == nil {
		_ = kjson.Unmarshal(o.raw, &o.value) // NewObject decoded it without an error
	}
	return o.value
}

// Decode decodes the object into an API type.
func (o *Object) Decode(v any) error {
	if err := json.Unmarshal(o.raw, v); err != nil {
		return fmt.Errorf("failed to decode %s from the daemon: %w", cmp.Or(o.Kind, "object"), err)
	}
	return nil
}

// Key identifies the object among those of its kind.
func (o *Object) Key() string { return o.Namespace + "/" + o.Name }

// equalIgnoringVersion reports whether two objects differ at most in their resource
// versions.
func (o *Object) equalIgnoringVersion(other *Object) bool {
	return bytes.Equal(o.withoutVersion(), other.withoutVersion())
}

func (o *Object) withoutVersion() []byte {
	return bytes.Replace(o.raw, []byte(`"resourceVersion":"`+o.ResourceVersion+`"`), []byte(`"resourceVersion":""`), 1)
}

// List is the daemon's response for a kind.
type List struct {
	Objects []*Object
	version string
	// Columns are the columns of the server's table, nil if no table was requested.
	Columns []metav1.TableColumnDefinition
}

// parseList parses a list or a table.
func parseList(body json.RawMessage) (*List, error) {
	var response struct {
		Kind              string
		Metadata          metav1.ListMeta
		Items             []json.RawMessage
		ColumnDefinitions []metav1.TableColumnDefinition
		Rows              []struct {
			Cells  []any
			Object json.RawMessage
		}
	}
	if err := json.Unmarshal(body, &response); err != nil {
		return nil, fmt.Errorf("failed to decode list from the daemon: %w", err)
	}
	l := &List{version: response.Metadata.ResourceVersion, Columns: response.ColumnDefinitions}
	for _, raw := range response.Items {
		o, err := NewObject(raw)
		if err != nil {
			return nil, err
		}
		l.Objects = append(l.Objects, o)
	}
	for _, row := range response.Rows {
		o, err := NewObject(row.Object)
		if err != nil {
			return nil, err
		}
		o.Cells = row.Cells
		l.Objects = append(l.Objects, o)
	}
	return l, nil
}

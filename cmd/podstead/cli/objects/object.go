package objects

import (
	"bytes"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "k8s.io/apimachinery/pkg/util/json"
)

// object is one of the Kubernetes API as the daemon sent it: what scripts get
// is that, with fields that this program does not know of.
type Object struct {
	raw json.RawMessage
	metav1.PartialObjectMetadata
	// cells are those of the server's table, if it was asked for one.
	Cells []any
	value any
}

func NewObject(raw json.RawMessage) (*Object, error) {
	o := &Object{raw: raw}
	if err := json.Unmarshal(raw, &o.PartialObjectMetadata); err != nil {
		return nil, fmt.Errorf("cannot read an object that podstead sent: %w", err)
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

// into decodes the object into one of the API's types.
func (o *Object) Decode(v any) error { return json.Unmarshal(o.raw, v) }

// key tells objects of a kind apart.
func (o *Object) Key() string { return o.Namespace + "/" + o.Name }

// same reports whether two objects are the same but for their resource versions.
func (o *Object) equalIgnoringVersion(other *Object) bool {
	return bytes.Equal(o.withoutVersion(), other.withoutVersion())
}

func (o *Object) withoutVersion() []byte {
	return bytes.Replace(o.raw, []byte(`"resourceVersion":"`+o.ResourceVersion+`"`), []byte(`"resourceVersion":""`), 1)
}

// listing is what the daemon answered for a kind.
type List struct {
	Objects []*Object
	version string
	// columns are those of the server's table, nil if none was asked for.
	Columns []metav1.TableColumnDefinition
}

// readListing reads a list, or a table.
func parseList(body json.RawMessage) (*List, error) {
	var answer struct {
		Kind              string
		Metadata          metav1.ListMeta
		Items             []json.RawMessage
		ColumnDefinitions []metav1.TableColumnDefinition
		Rows              []struct {
			Cells  []any
			Object json.RawMessage
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("cannot read a list that podstead sent: %w", err)
	}
	l := &List{version: answer.Metadata.ResourceVersion, Columns: answer.ColumnDefinitions}
	for _, raw := range answer.Items {
		o, err := NewObject(raw)
		if err != nil {
			return nil, err
		}
		l.Objects = append(l.Objects, o)
	}
	for _, row := range answer.Rows {
		o, err := NewObject(row.Object)
		if err != nil {
			return nil, err
		}
		o.Cells = row.Cells
		l.Objects = append(l.Objects, o)
	}
	return l, nil
}

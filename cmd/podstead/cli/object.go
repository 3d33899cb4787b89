package cli

import (
	"bytes"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// object is one of the Kubernetes API as the daemon sent it: what scripts get
// is that, with fields that this program does not know of.
type object struct {
	raw json.RawMessage
	metav1.PartialObjectMetadata
	// cells are those of the server's table, if it was asked for one.
	cells []any
	value any
}

func newObject(raw json.RawMessage) (*object, error) {
	o := &object{raw: raw}
	if err := json.Unmarshal(raw, &o.PartialObjectMetadata); err != nil {
		return nil, fmt.Errorf("cannot read an object that podstead sent: %w", err)
	}
	return o, nil
}

// tree is the object as maps and lists; numbers keep their digits.
func (o *object) tree() any {
	if o.value == nil {
		d := json.NewDecoder(bytes.NewReader(o.raw))
		d.UseNumber()
		_ = d.Decode(&o.value) // it was read before
	}
	return o.value
}

// into decodes the object into one of the API's types.
func (o *object) into(v any) error { return json.Unmarshal(o.raw, v) }

// key tells objects of a kind apart.
func (o *object) key() string { return o.Namespace + "/" + o.Name }

// same reports whether two objects are the same but for their resource versions.
func (o *object) same(other *object) bool {
	return bytes.Equal(o.withoutVersion(), other.withoutVersion())
}

func (o *object) withoutVersion() []byte {
	return bytes.Replace(o.raw, []byte(`"resourceVersion":"`+o.ResourceVersion+`"`), []byte(`"resourceVersion":""`), 1)
}

// listing is what the daemon answered for a kind.
type listing struct {
	objects []*object
	version string
	// columns are those of the server's table, nil if none was asked for.
	columns []metav1.TableColumnDefinition
}

// readListing reads a list, or a table.
func readListing(body json.RawMessage) (*listing, error) {
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
	l := &listing{version: answer.Metadata.ResourceVersion, columns: answer.ColumnDefinitions}
	for _, raw := range answer.Items {
		o, err := newObject(raw)
		if err != nil {
			return nil, err
		}
		l.objects = append(l.objects, o)
	}
	for _, row := range answer.Rows {
		o, err := newObject(row.Object)
		if err != nil {
			return nil, err
		}
		o.cells = row.Cells
		l.objects = append(l.objects, o)
	}
	return l, nil
}

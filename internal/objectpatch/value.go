package objectpatch

import (
	"encoding/json"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// Patch is a change of an object, as a value.
type Patch struct {
	// Type is that of the patch. The empty type replaces all of the object by Object.
	Type types.PatchType
	// Operations is a JSON patch, Object any other one.
	Operations []byte
	Object     map[string]any
	// Of is the type of the object, for the merge keys of a strategic merge patch.
	Of reflect.Type
}

// Whole reports whether the patch is all of the object, and not a change of what its client was shown.
func (p *Patch) Whole() bool { return p.Type == "" }

// Names reports whether the patch names a field of the metadata: a JSON patch by the path of an operation, of the
// field, of all of the metadata or of the object. One that cannot be decoded names nothing, and is refused when it is
// applied.
func (p *Patch) Names(field string) bool {
	if p.Type == types.JSONPatchType {
		var operations []struct{ Path, From string }
		if json.Unmarshal(p.Operations, &operations) != nil {
			return false
		}
		for _, o := range operations {
			if o.Path == "" || slices.ContainsFunc([]string{o.Path, o.From}, func(path string) bool {
				return path == "/metadata/"+field || path == "/metadata"
			}) {
				return true
			}
		}
		return false
	}
	metadata, _ := p.Object["metadata"].(map[string]any)
	return metadata[field] != nil
}

// Apply returns the patched object.
func (p *Patch) Apply(object map[string]any) (map[string]any, error) {
	switch p.Type {
	case types.JSONPatchType:
		return JSON(object, p.Operations)
	case types.MergePatchType:
		return Merge(object, p.Object), nil
	case types.StrategicMergePatchType:
		return Strategic(object, p.Object, p.Of)
	}
	return p.Object, nil
}

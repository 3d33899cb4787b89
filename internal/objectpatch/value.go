package objectpatch

import (
	"bytes"
	"reflect"

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

// Names reports whether the patch may name a field of the metadata.
func (p *Patch) Names(field string) bool {
	if p.Type == types.JSONPatchType {
		return bytes.Contains(p.Operations, []byte(field))
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

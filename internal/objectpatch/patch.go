package objectpatch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
)

const (
	// maxOperations is the maximum number of operations of a JSON patch, as of an API server.
	maxOperations = 10000
	// maxDepth is the maximum number of levels of a decoded object. A manifest has at most 100;
	// YAML indents each, so that the text of a deep object is larger by its square.
	maxDepth = 128
	// maxCopied is the maximum size in bytes of what the copy operations of JSON patches add.
	maxCopied = 3 << 20
)

func init() { jsonpatch.AccumulatedCopySizeLimit = maxCopied }

// Decode decodes an object, with json.Number for numbers.
func Decode(data []byte) (map[string]any, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var value map[string]any
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	if value == nil {
		return nil, errors.New("must be an object, but is null")
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("has something after the object")
	}
	if isDeeper(value, maxDepth) {
		return nil, fmt.Errorf("is nested too deeply; must have at most %d levels", maxDepth)
	}
	return value, nil
}

// isDeeper reports whether a decoded value has more levels of objects and lists.
func isDeeper(value any, levels int) bool {
	switch value := value.(type) {
	case map[string]any:
		if levels == 0 {
			return true
		}
		for _, v := range value {
			if isDeeper(v, levels-1) {
				return true
			}
		}
	case []any:
		return levels == 0 || slices.ContainsFunc(value, func(v any) bool { return isDeeper(v, levels-1) })
	}
	return false
}

// JSON applies a JSON patch (RFC 6902).
func JSON(object map[string]any, patch []byte) (patched map[string]any, err error) {
	// The library dereferences nil for some operations, such as a test of the whole object
	// without a value.
	defer func() {
		if r := recover(); r != nil {
			patched, err = nil, fmt.Errorf("an operation is invalid: %v", r)
		}
	}()
	operations, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, fmt.Errorf("must be a list of operations: %w", err)
	}
	if len(operations) > maxOperations {
		return nil, fmt.Errorf("has %d operations; at most %d are allowed", len(operations), maxOperations)
	}
	text, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	if text, err = operations.Apply(text); err != nil {
		return nil, err
	}
	return Decode(text)
}

// Merge applies a merge patch (RFC 7386).
func Merge(object, patch map[string]any) map[string]any {
	merged := maps.Clone(object)
	if merged == nil {
		merged = map[string]any{}
	}
	for key, value := range patch {
		switch value := value.(type) {
		case nil:
			delete(merged, key)
		case map[string]any:
			old, _ := merged[key].(map[string]any)
			merged[key] = Merge(old, value)
		default:
			merged[key] = value
		}
	}
	return merged
}

// The directives of strategic merge patches.
const (
	directive       = "$patch"
	retainKeys      = "$retainKeys"
	elementOrder    = "$setElementOrder/"
	deletePrimitive = "$deleteFromPrimitiveList/"
)

// Strategic applies a strategic merge patch to an object of a type.
func Strategic(object, patch map[string]any, t reflect.Type) (map[string]any, error) {
	switch patch[directive] {
	case nil, "merge":
	case "replace":
		replaced := maps.Clone(patch)
		delete(replaced, directive)
		return replaced, nil
	case "delete":
		return map[string]any{}, nil
	default:
		return nil, fmt.Errorf("%s: %v: must be merge, replace or delete", directive, patch[directive])
	}
	merged := maps.Clone(object)
	if merged == nil {
		merged = map[string]any{}
	}
	if keys, ok := patch[retainKeys].([]any); ok {
		kept := setOf(keys)
		maps.DeleteFunc(merged, func(key string, _ any) bool { return !kept[key] })
	}
	for key, value := range patch {
		if strings.HasPrefix(key, "$") {
			continue
		}
		if value == nil {
			delete(merged, key)
			continue
		}
		result, err := strategicValue(merged[key], value, fieldOf(t, key))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		merged[key] = result
	}
	return merged, orderLists(merged, patch, t)
}

// orderLists applies the directives about whole lists.
func orderLists(merged, patch map[string]any, t reflect.Type) error {
	for key, value := range patch {
		if name, ok := strings.CutPrefix(key, deletePrimitive); ok {
			deleted, valid := value.([]any)
			if !valid {
				return fmt.Errorf("%s: must be a list", key)
			}
			list, _ := merged[name].([]any)
			if list != nil {
				gone := setOf(deleted)
				merged[name] = slices.DeleteFunc(slices.Clone(list), func(v any) bool { return gone[identity(v)] })
			}
		}
	}
	for key, value := range patch {
		if name, ok := strings.CutPrefix(key, elementOrder); ok {
			order, valid := value.([]any)
			if !valid {
				return fmt.Errorf("%s: must be a list", key)
			}
			if list, _ := merged[name].([]any); list != nil {
				merged[name] = ordered(list, order, fieldOf(t, name).mergeKey)
			}
		}
	}
	return nil
}

func strategicValue(old, value any, f field) (any, error) {
	switch value := value.(type) {
	case map[string]any:
		before, _ := old.(map[string]any)
		return Strategic(before, value, f.of)
	case []any:
		before, _ := old.([]any)
		switch {
		case f.merges && f.mergeKey != "":
			return strategicList(before, value, f)
		case f.merges:
			merged, present := slices.Clone(before), setOf(before)
			for _, v := range value {
				if id := identity(v); !present[id] {
					merged, present[id] = append(merged, v), true
				}
			}
			return merged, nil
		}
	}
	return value, nil
}

// strategicList merges lists of objects by their merge key.
func strategicList(old, patch []any, f field) (any, error) {
	merged := slices.Clone(old)
	// places are where the items of each key are; deleted ones are removed at the end.
	places := map[any][]int{}
	for i, v := range merged {
		if id := identity(keyOf(v, f.mergeKey)); id != nil {
			places[id] = append(places[id], i)
		}
	}
	deleted := map[int]bool{}
	var replaced []any
	replaces := false
	for i, v := range patch {
		change, ok := v.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("[%d]: must be an object", i)
		}
		key, named := change[f.mergeKey]
		switch {
		case change[directive] == "replace" && !named:
			replaces = true
			continue
		case !named:
			return nil, fmt.Errorf("[%d]: must have %s", i, f.mergeKey)
		}
		replaced = append(replaced, v)
		id := identity(key)
		at := places[id]
		if change[directive] == "delete" {
			if len(at) > 0 {
				deleted[at[0]], places[id] = true, at[1:]
			}
			continue
		}
		var before map[string]any
		if len(at) > 0 {
			before, _ = merged[at[0]].(map[string]any)
		}
		result, err := Strategic(before, change, item(f.of))
		if err != nil {
			return nil, fmt.Errorf("[%d]: %w", i, err)
		}
		if len(at) > 0 {
			merged[at[0]] = result
			continue
		}
		if id != nil {
			places[id] = append(places[id], len(merged))
		}
		merged = append(merged, result)
	}
	if replaces {
		return replaced, nil
	}
	if len(deleted) == 0 {
		return merged, nil
	}
	kept := []any{}
	for i, v := range merged {
		if !deleted[i] {
			kept = append(kept, v)
		}
	}
	return kept, nil
}

// ordered puts the items that an order lists into this order; the other ones stay where they are.
func ordered(list, order []any, mergeKey string) []any {
	itemID := func(v any) any {
		if mergeKey != "" {
			v = keyOf(v, mergeKey)
		}
		return identity(v)
	}
	places := map[any]int{}
	for i, o := range order {
		id := itemID(o)
		if _, known := places[id]; !known && id != nil {
			places[id] = i
		}
	}
	var listed []any
	var at []int // where the listed items are
	for i, v := range list {
		if _, ok := places[itemID(v)]; ok {
			listed, at = append(listed, v), append(at, i)
		}
	}
	slices.SortStableFunc(listed, func(a, b any) int { return places[itemID(a)] - places[itemID(b)] })
	sorted := slices.Clone(list)
	for i, v := range listed {
		sorted[at[i]] = v
	}
	return sorted
}

// keyOf returns the merge key of an item, nil if it has none.
func keyOf(v any, mergeKey string) any {
	object, _ := v.(map[string]any)
	return object[mergeKey]
}

// encoded is the identity of a value that cannot be the key of a map.
type encoded string

// identity returns what is equal for equal values, as the key of a map: lists in a request can
// have so many items that each cannot be compared with each. It is nil for nil.
func identity(v any) any {
	switch v.(type) {
	case map[string]any, []any:
		text, err := json.Marshal(v)
		if err != nil {
			return nil
		}
		return encoded(text)
	}
	return v
}

func setOf(values []any) map[any]bool {
	set := map[any]bool{}
	for _, v := range values {
		set[identity(v)] = true
	}
	return set
}

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
	return value, nil
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
		maps.DeleteFunc(merged, func(key string, _ any) bool { return !slices.Contains(keys, any(key)) })
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
				merged[name] = slices.DeleteFunc(slices.Clone(list), func(v any) bool { return contains(deleted, v) })
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
			merged := slices.Clone(before)
			for _, v := range value {
				if !contains(merged, v) {
					merged = append(merged, v)
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
		at := slices.IndexFunc(merged, func(v any) bool { return same(keyOf(v, f.mergeKey), key) })
		if change[directive] == "delete" {
			if at >= 0 {
				merged = slices.Delete(merged, at, at+1)
			}
			continue
		}
		var before map[string]any
		if at >= 0 {
			before, _ = merged[at].(map[string]any)
		}
		result, err := Strategic(before, change, item(f.of))
		if err != nil {
			return nil, fmt.Errorf("[%d]: %w", i, err)
		}
		if at >= 0 {
			merged[at] = result
		} else {
			merged = append(merged, result)
		}
	}
	if replaces {
		return replaced, nil
	}
	return merged, nil
}

// ordered puts the items that an order lists into this order; the other ones stay where they are.
func ordered(list, order []any, mergeKey string) []any {
	place := func(v any) int {
		return slices.IndexFunc(order, func(o any) bool {
			if mergeKey == "" {
				return same(o, v)
			}
			return same(keyOf(o, mergeKey), keyOf(v, mergeKey))
		})
	}
	var listed []any
	for _, v := range list {
		if place(v) >= 0 {
			listed = append(listed, v)
		}
	}
	slices.SortStableFunc(listed, func(a, b any) int { return place(a) - place(b) })
	sorted := slices.Clone(list)
	next := 0
	for i, v := range sorted {
		if place(v) >= 0 {
			sorted[i] = listed[next]
			next++
		}
	}
	return sorted
}

// keyOf returns the merge key of an item, nil if it has none.
func keyOf(v any, mergeKey string) any {
	object, _ := v.(map[string]any)
	return object[mergeKey]
}

func same(a, b any) bool { return a != nil && reflect.DeepEqual(a, b) }

func contains(list []any, v any) bool {
	return slices.ContainsFunc(list, func(other any) bool { return reflect.DeepEqual(other, v) })
}

package objectpatch

import (
	"maps"
	"reflect"
)

// Transfer returns a document with the differences between two versions of its object: before is
// what the document declares, with defaults, and after what a client made of it. What is equal in
// both stays as the document has it, also if that is not at all.
func Transfer(document, before, after map[string]any, t reflect.Type) map[string]any {
	result := maps.Clone(document)
	if result == nil {
		result = map[string]any{}
	}
	for key := range before {
		if _, ok := after[key]; !ok {
			delete(result, key)
		}
	}
	for key, desired := range after {
		old, existed := before[key]
		if existed && reflect.DeepEqual(old, desired) {
			continue
		}
		declared, ok := result[key]
		moved := transferValue(declared, old, desired, fieldOf(t, key))
		if !ok && existed && isEmpty(moved) && !isEmpty(desired) {
			continue // only defaults were removed
		}
		result[key] = moved
	}
	return result
}

func transferValue(document, before, after any, f field) any {
	switch after := after.(type) {
	case map[string]any:
		old, ok := before.(map[string]any)
		declared, isMap := document.(map[string]any)
		if ok && (isMap || document == nil) {
			return Transfer(declared, old, after, f.of)
		}
	case []any:
		old, ok := before.([]any)
		declared, isList := document.([]any)
		if ok && (isList || document == nil) {
			return transferList(declared, old, after, f)
		}
	}
	return after
}

func transferList(document, before, after []any, f field) []any {
	declared, old, desired := byKey(document, f.mergeKey), byKey(before, f.mergeKey), byKey(after, f.mergeKey)
	element := field{of: item(f.of)}
	if f.mergeKey == "" || declared == nil || old == nil || desired == nil {
		if len(document) != len(before) || len(before) != len(after) {
			return after
		}
		result := make([]any, len(after))
		for i := range after {
			result[i] = document[i]
			if !reflect.DeepEqual(before[i], after[i]) {
				result[i] = transferValue(document[i], before[i], after[i], element)
			}
		}
		return result
	}
	result := []any{}
	for _, v := range after {
		key := keyOf(v, f.mergeKey)
		mine, isDeclared := declared[key]
		was, existed := old[key]
		switch {
		case existed && reflect.DeepEqual(was, v):
			if isDeclared {
				result = append(result, mine)
			}
		case existed && isDeclared:
			result = append(result, transferValue(mine, was, v, element))
		default:
			result = append(result, v)
		}
	}
	return result
}

// byKey returns the items of a list by their merge key; nil if an item has none, or two have the
// same.
func byKey(list []any, mergeKey string) map[any]any {
	items := map[any]any{}
	for _, v := range list {
		key := keyOf(v, mergeKey)
		if _, twice := items[key]; twice || key == nil || !reflect.TypeOf(key).Comparable() {
			return nil
		}
		items[key] = v
	}
	return items
}

func isEmpty(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return false
}

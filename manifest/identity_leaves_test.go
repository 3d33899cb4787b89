package manifest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// leaves are the paths of the plain values of a generic object, in order. Keys
// that hold dots are in brackets.
func leaves(value any, path string, found []string) []string {
	switch value := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			found = leaves(value[name], joinPath(path, name), found)
		}
	case []any:
		for i, item := range value {
			found = leaves(item, fmt.Sprintf("%s[%d]", path, i), found)
		}
	case nil:
	default:
		found = append(found, path)
	}
	return found
}

// leafOf is the value at a path; nil if there is none.
func leafOf(object map[string]any, path string) any {
	var found any
	walkLeaf(object, path, func(value any) (any, bool) {
		found = value
		return value, true
	})
	return found
}

// editLeaf replaces the value at a path, or takes it out if edit is nil.
func editLeaf(object map[string]any, path string, edit func(any) any) {
	walkLeaf(object, path, func(value any) (any, bool) {
		if edit == nil {
			return nil, false
		}
		return edit(value), true
	})
}

func walkLeaf(value any, path string, visit func(any) (any, bool)) {
	switch value := value.(type) {
	case map[string]any:
		for name, inner := range value {
			rest, ok := cutStep(path, name)
			switch {
			case !ok:
			case rest != "":
				walkLeaf(inner, rest, visit)
			default:
				if edited, keep := visit(inner); keep {
					value[name] = edited
				} else {
					delete(value, name)
				}
			}
		}
	case []any:
		for i, inner := range value {
			rest, ok := cutStep(path, fmt.Sprintf("[%d]", i))
			switch {
			case !ok:
			case rest != "":
				walkLeaf(inner, rest, visit)
			default:
				if edited, keep := visit(inner); keep {
					value[i] = edited
				} else {
					value[i] = nil
				}
			}
		}
	}
}

// cutStep takes a step off the front of a path.
func cutStep(path, step string) (string, bool) {
	if len(path) < len(step) || path[:len(step)] != step {
		return "", false
	}
	switch rest := path[len(step):]; {
	case rest == "":
		return "", true
	case rest[0] == '.':
		return rest[1:], true
	case rest[0] == '[':
		return rest, true
	}
	return "", false
}

func podOf(t *testing.T, value any) *v1.Pod {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	pod := &v1.Pod{}
	if err := json.Unmarshal(text, pod); err != nil {
		t.Fatal(err)
	}
	return pod
}

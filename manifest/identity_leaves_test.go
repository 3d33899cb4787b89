package manifest

import (
	"fmt"
	"maps"
	"slices"

	"github.com/podstead/podstead/manifest/validation"
)

// leaves returns the paths of the scalars of a generic object, in order. Keys
// with dots are in brackets.
func leaves(value any, path string, found []string) []string {
	switch value := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			found = leaves(value[name], validation.JoinPath(path, name), found)
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

// leafOf returns the value at a path; nil if there is none.
func leafOf(object map[string]any, path string) any {
	var found any
	walkLeaf(object, path, func(value any) (any, bool) {
		found = value
		return value, true
	})
	return found
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

// cutStep removes a step from the front of a path.
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

package summary

import (
	"strconv"
	"strings"
)

// lookup follows a path of names and indexes, nil if it leads nowhere.
func lookup(v any, path string) any {
	for _, part := range strings.Split(path, ".") {
		switch at := v.(type) {
		case map[string]any:
			v = at[part]
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i >= len(at) {
				return nil
			}
			v = at[i]
		default:
			return nil
		}
	}
	return v
}

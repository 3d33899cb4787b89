package config

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

//go:embed kubelet_fields.txt
var kubeletFieldsText string

// fieldsWithout are the fields of a KubeletConfiguration that are no settings, by path. Any field
// that is neither here nor in the table is an error, probably a misspelling.
var fieldsWithout = parseKubeletFields(kubeletFieldsText)

// fieldWithout is a field of which only one value is supported, or none.
type fieldWithout struct {
	// value is the supported value as encoding/json decodes it; nil for none.
	value any
	// remedy reports why each other value is refused and what to do; empty if they are ignored.
	remedy string
}

// parseKubeletFields parses the lines behind the blank line after the description.
func parseKubeletFields(text string) map[string]fieldWithout {
	fields := map[string]fieldWithout{}
	_, lines, _ := strings.Cut(text, "has no effect, which the log says.\n\n")
	for line := range strings.Lines(lines) {
		line, remedy, _ := strings.Cut(strings.TrimSpace(line), " ! ")
		name, value, supported := strings.Cut(line, " = ")
		f := fieldWithout{remedy: remedy}
		if supported {
			if err := json.Unmarshal([]byte(value), &f.value); err != nil {
				panic(fmt.Sprintf("%s: %v", name, err))
			}
		}
		fields[name] = f
	}
	return fields
}

// supports reports whether a value means what podstead does anyway.
func (f fieldWithout) supports(value any) bool {
	return f.value != nil && reflect.DeepEqual(f.value, value) || isDefault(value)
}

// isDefault reports whether a value stands for the kubelet's default. kubeadm writes every
// field that is not a pointer in Go, most of them as zero values. A number or boolean at the
// top level may be intended.
func isDefault(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case string:
		return v == "" || v == "0s"
	case []any:
		return len(v) == 0
	case map[string]any:
		for _, field := range v {
			if !isDefault(field) && field != 0.0 && field != "0" {
				return false
			}
		}
		return true
	}
	return false
}

// KnownFields returns the names of the top-level fields of a KubeletConfiguration, sorted.
func KnownFields() []string {
	r := reader{table: newTable((&Options{}).groups()), kind: kubeletKind}
	return r.below("")
}

// addFixed adds the fields of which only one value is supported to a KubeletConfiguration.
func addFixed(all map[string]any) {
	for _, path := range slices.Sorted(maps.Keys(fieldsWithout)) {
		if v := fieldsWithout[path].value; v != nil {
			putField(all, path, v)
		}
	}
}

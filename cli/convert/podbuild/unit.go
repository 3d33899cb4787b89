package podbuild

import (
	"encoding/json"
	"fmt"

	"github.com/podstead/podstead/cli/convert/report"
)

// Object is one object of the result.
type Object struct {
	// Value is the object as decoded from JSON.
	Value map[string]any
	// Origin is where it comes from in the input.
	Origin report.Field
	// Locate returns where the field at a path of the object comes from; nil if that is Origin
	// for every field.
	Locate func(path string) report.Field
}

// Unit is a pod and the objects that come with it, or one object by itself.
type Unit struct {
	// Name is that of the file that the unit is written to, without a suffix.
	Name    string
	Objects []Object
}

// Encode returns an API object as decoded from JSON, without its status and without empty fields
// that mean nothing.
func Encode(object any) map[string]any {
	text, err := json.Marshal(object)
	var value map[string]any
	if err == nil {
		err = json.Unmarshal(text, &value)
	}
	if err != nil {
		panic(fmt.Sprintf("failed to encode %T: %v", object, err)) // API types are always JSON
	}
	delete(value, "status")
	prune(value)
	return value
}

// prune removes null fields and the empty structs that API types always print.
func prune(value any) {
	switch value := value.(type) {
	case map[string]any:
		for key, field := range value {
			inner, isMap := field.(map[string]any)
			if field == nil || isMap && len(inner) == 0 && key == "resources" {
				delete(value, key)
				continue
			}
			prune(field)
		}
	case []any:
		for _, item := range value {
			prune(item)
		}
	}
}

package validation

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/podstead/podstead/internal/suggest"
)

// SchemaChecker compares a decoded value with the Go type that it is meant for.
// Unlike a JSON decoder it finds everything that is wrong and compares field
// names case-sensitively.
type SchemaChecker struct {
	// Scalar returns the text of the scalar at a field path as it is written in
	// the manifest, empty if there is none. It may be nil.
	Scalar func(path string) string
	// Secret keeps values out of the faults.
	Secret bool

	faults []FieldFault
}

// Check returns what is wrong with a value of encoding/json, in which numbers
// are json.Number. It removes from the value what cannot be decoded into the
// type.
func (s *SchemaChecker) Check(value any, t reflect.Type) []FieldFault {
	s.faults = nil
	s.visit(value, t, "", nil)
	return s.faults
}

// maxSchemaFaults bounds the work on a document in which nothing is right.
const maxSchemaFaults = 1000

// visit checks the value at a path. It reports whether the value can be decoded
// into the type; one that cannot is to be removed.
func (s *SchemaChecker) visit(value any, t reflect.Type, path string, structs []pathStruct) bool {
	if value == nil {
		// JSON's null means absent, whatever the type.
		return true
	}
	t = pointee(t)
	if decodesItself(t) {
		return s.visitOpaque(value, t, path)
	}
	switch t.Kind() {
	case reflect.Struct:
		object, ok := value.(map[string]any)
		if !ok {
			return s.wrongType(value, path, "must be a mapping of fields to values")
		}
		s.visitStruct(object, path, append(slices.Clip(structs), pathStruct{path: path, typ: t}))
		return true
	case reflect.Map:
		object, ok := value.(map[string]any)
		if !ok {
			return s.wrongType(value, path, "must be a mapping of keys to values")
		}
		for _, key := range slices.Sorted(maps.Keys(object)) {
			if !s.visit(object[key], t.Elem(), path+"["+key+"]", structs) {
				delete(object, key)
			}
		}
		return true
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return s.visitOpaque(value, t, path)
		}
		list, ok := value.([]any)
		if !ok {
			return s.wrongType(value, path, "must be a list: put a dash before each item")
		}
		return s.visitList(list, t.Elem(), path, structs)
	}
	return s.visitScalar(value, t, path)
}

func (s *SchemaChecker) visitStruct(object map[string]any, path string, structs []pathStruct) {
	here := structs[len(structs)-1].typ
	fields := fieldsOf(here)
	for _, name := range slices.Sorted(maps.Keys(object)) {
		at := JoinPath(path, name)
		t, ok := fields.types[name]
		if !ok {
			s.unknown(name, path, structs)
			delete(object, name)
		} else if !s.visit(object[name], t, at, structs) {
			delete(object, name)
		}
	}
}

func (s *SchemaChecker) unknown(name, path string, structs []pathStruct) {
	if len(s.faults) >= maxSchemaFaults {
		return
	}
	fault := FieldFault{Path: JoinPath(path, name), Problem: "unknown field", Remedy: fieldRemedy(name, structs),
		Lenient: true}
	if meant := suggest.Nearest(name, fieldsOf(structs[len(structs)-1].typ).names); meant != "" {
		fault.meant = JoinPath(path, meant)
	}
	s.faults = append(s.faults, fault)
}

func (s *SchemaChecker) visitList(list []any, t reflect.Type, path string, structs []pathStruct) bool {
	decodes := true
	for i, item := range list {
		at := fmt.Sprintf("%s[%d]", path, i)
		if item == nil && len(s.faults) < maxSchemaFaults {
			// A decoder would turn it into an empty string or object.
			s.faults = append(s.faults, FieldFault{Path: at, Problem: "is empty", Lenient: true,
				Remedy: `give it a value ("" for an empty string) or remove it`})
		}
		// A list with a gap would have other indexes, so that either all or no
		// items are kept.
		decodes = s.visit(item, t, at, structs) && decodes
	}
	return decodes
}

func (s *SchemaChecker) visitScalar(value any, t reflect.Type, path string) bool {
	switch t.Kind() {
	case reflect.String:
		if _, ok := value.(string); ok {
			return true
		}
		return s.wrongType(value, path, s.quoteRemedy(value, path))
	case reflect.Bool:
		if _, ok := value.(bool); ok {
			return true
		}
		return s.wrongType(value, path, "must be true or false, without quotes")
	case reflect.Int, reflect.Int32, reflect.Int64:
		number, ok := value.(json.Number)
		if !ok {
			return s.wrongType(value, path, "must be a whole number, without quotes")
		}
		if _, err := strconv.ParseInt(number.String(), 10, t.Bits()); err != nil {
			return s.wrongType(value, path, wholeNumberRemedy(number.String(), t.Bits()))
		}
		return true
	}
	return s.visitOpaque(value, t, path)
}

func wholeNumberRemedy(number string, bits int) string {
	if strings.ContainsAny(number, ".eE") {
		return "must be a whole number"
	}
	most := uint64(1)<<(bits-1) - 1
	return fmt.Sprintf("must be a whole number between -%d and %d", most+1, most)
}

// quoteRemedy shows how to write a value as a string that YAML does not read as
// one.
func (s *SchemaChecker) quoteRemedy(value any, path string) string {
	switch value.(type) {
	case []any, map[string]any:
		return "must be a string"
	}
	if s.Secret {
		return "must be a string: put quotes around it"
	}
	text := jsonText(value)
	if written := s.scalar(path); written != "" {
		text = written
	}
	return "must be a string: write " + Quote(text) + " in quotes"
}

// visitOpaque checks a value of a type that has its own JSON decoding.
func (s *SchemaChecker) visitOpaque(value any, t reflect.Type, path string) bool {
	text, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(text, reflect.New(t).Interface())
	}
	if err == nil {
		return true
	}
	switch t {
	case reflect.TypeFor[resource.Quantity]():
		return s.wrongType(value, path,
			"must be a quantity: a number that may have a suffix, such as 0.5, 100m, 128Mi or 1Gi")
	case reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime]():
		return s.wrongType(value, path, `must be a time such as "2026-01-31T12:00:00Z"`)
	case reflect.TypeFor[intstr.IntOrString]():
		return s.wrongType(value, path, "must be a whole number or a name")
	case reflect.TypeFor[[]byte]():
		if s.Secret {
			return s.wrongType(value, path, "must be a base64-encoded string; put plain text under stringData")
		}
		return s.wrongType(value, path, "must be a base64-encoded string")
	}
	return s.wrongType(value, path, "must be a "+t.Name())
}

// wrongType adds a fault and returns false.
func (s *SchemaChecker) wrongType(value any, path, remedy string) bool {
	if len(s.faults) < maxSchemaFaults {
		s.faults = append(s.faults, FieldFault{Path: path, Problem: "is " + s.Describe(value, path), Remedy: remedy})
	}
	return false
}

func (s *SchemaChecker) scalar(path string) string {
	if s.Scalar == nil {
		return ""
	}
	return s.Scalar(path)
}

// Describe returns what the value at a path is, such as: the string "a".
func (s *SchemaChecker) Describe(value any, path string) string {
	if s.Secret {
		return describeType(value)
	}
	switch value := value.(type) {
	case map[string]any:
		return "a mapping"
	case []any:
		return "a list"
	case string:
		return "the string " + Quote(value)
	case json.Number:
		return "the number " + value.String()
	case bool:
		text := strconv.FormatBool(value)
		if written := s.scalar(path); written != "" && written != text {
			return "the boolean " + text + " (YAML 1.1 reads `" + written + "` as a boolean)"
		}
		return "the boolean " + text
	}
	return "of the wrong type"
}

// describeType returns the type of a value without the value.
func describeType(value any) string {
	switch value.(type) {
	case map[string]any:
		return "a mapping"
	case []any:
		return "a list"
	case string:
		return "a string"
	case json.Number:
		return "a number"
	case bool:
		return "a boolean"
	}
	return "of the wrong type"
}

// jsonText returns a scalar as JSON writes it.
func jsonText(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(text)
}

package jsonpath

import (
	"fmt"
	"io"
	"reflect"
	"strings"

	"k8s.io/client-go/util/jsonpath"
)

// Template is a parsed template, such as {.items[*].metadata.name}.
type Template struct{ text string }

// String returns the text of the template.
func (t *Template) String() string { return t.text }

// Parse parses a template.
func Parse(text string) (*Template, error) {
	if _, err := compile(text); err != nil {
		return nil, err
	}
	return &Template{text}, nil
}

// ParsePath parses a single path in any of the forms that kubectl accepts:
// {.a.b}, .a.b or a.b.
func ParsePath(text string) (*Template, error) {
	path := strings.TrimSpace(text)
	if inner, ok := strings.CutPrefix(path, "{"); ok && strings.HasSuffix(inner, "}") {
		path = strings.TrimSuffix(inner, "}")
	}
	if path == "" {
		return nil, fmt.Errorf("jsonpath %q: path is empty", text)
	}
	if !strings.ContainsAny(path[:1], ".$[@") {
		path = "." + path
	}
	return Parse("{" + path + "}")
}

// compile parses the text. A compiled template is good for one evaluation only, since
// client-go advances its nodes while it evaluates a range.
func compile(text string) (*jsonpath.JSONPath, error) {
	t := jsonpath.New("jsonpath").AllowMissingKeys(true)
	if err := t.Parse(text); err != nil {
		return nil, fmt.Errorf("jsonpath %q: %w", text, err)
	}
	return t, nil
}

// Execute writes the template filled in from an object. A missing key is empty; an index
// out of range is an error, as with kubectl.
func (t *Template) Execute(out io.Writer, object any) error {
	compiled, err := compile(t.text)
	if err == nil {
		err = compiled.Execute(out, object)
	}
	if err != nil {
		return fmt.Errorf("failed to execute jsonpath %q: %w", t.text, err)
	}
	return nil
}

// Find returns the values that the template finds in an object, in order. It returns
// none if the template cannot be evaluated, such as with an index out of range.
func (t *Template) Find(object any) []any {
	compiled, err := compile(t.text)
	if err != nil {
		return nil
	}
	results, err := compiled.FindResults(object)
	if err != nil {
		return nil
	}
	var all []any
	for _, list := range results {
		for _, value := range list {
			all = append(all, plain(value))
		}
	}
	return all
}

func plain(v reflect.Value) any {
	if !v.IsValid() {
		return nil
	}
	return v.Interface()
}

// Texts returns what Find finds as text.
func (t *Template) Texts(object any) []string {
	var all []string
	for _, value := range t.Find(object) {
		all = append(all, fmt.Sprint(value))
	}
	return all
}

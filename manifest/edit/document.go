package edit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/podstead/podstead/manifest"
)

// Document is one object to write.
type Document struct {
	Ref manifest.ObjectRef
	// Value is the object as decoded, with json.Number for numbers.
	Value map[string]any
	// Text is the object as YAML, as its author wrote it if that was YAML. It ends with a line
	// break.
	Text []byte
	// comments are the lines of comments before the text.
	comments []byte
}

// New returns a document with a decoded object. Its error reports that the object has no kind or
// no name.
func New(value map[string]any) (Document, error) {
	ref, ok := manifest.RefOf(value)
	if !ok {
		return Document{}, fmt.Errorf("an object must have a kind and metadata.name")
	}
	text, err := toYAML(value)
	if err != nil {
		return Document{}, fmt.Errorf("failed to print %s: %w", ref, err)
	}
	return Document{Ref: ref, Value: value, Text: text}, nil
}

// Documents returns the objects in the text of a manifest, with the items of its lists. The
// faults are those of text that cannot be decoded, or of objects without a name.
func Documents(unit string, data []byte) ([]Document, manifest.Faults) {
	parts, faults := manifest.Parts(unit, data)
	var all []Document
	add := func(value any) *Document {
		object, _ := value.(map[string]any)
		d, err := New(object)
		if err != nil {
			faults = append(faults, manifest.Fault{Unit: unit, Problem: err.Error()})
			return nil
		}
		all = append(all, d)
		return &all[len(all)-1]
	}
	for _, p := range parts {
		if p.List {
			for _, item := range itemsOf(p.Value) {
				add(item)
			}
			continue
		}
		if d := add(p.Value); d != nil && !p.JSON {
			d.Text = withLineEnd(data[p.Start:p.End])
			d.comments = leadingComments(data[p.Begin:p.Start])
		}
	}
	return all, faults
}

// itemsOf returns the items of a list. Those of a PodList are pods without saying so.
func itemsOf(value any) []any {
	list, _ := value.(map[string]any)
	items, _ := list["items"].([]any)
	if list["kind"] != "PodList" {
		return items
	}
	for _, item := range items {
		if pod, ok := item.(map[string]any); ok && pod["kind"] == nil {
			pod["kind"], pod["apiVersion"] = "Pod", "v1"
		}
	}
	return items
}

// leadingComments returns the lines of comments in what precedes a document.
func leadingComments(text []byte) (comments []byte) {
	for line := range bytes.Lines(text) {
		if line[0] == '#' {
			comments = append(comments, line...)
		}
	}
	return comments
}

// json returns the document as indented JSON.
func (d *Document) json() ([]byte, error) {
	text, err := json.MarshalIndent(d.Value, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("failed to print %s: %w", d.Ref, err)
	}
	return text, nil
}

// sameValue reports whether two decoded objects are equal.
func sameValue(a, b any) bool { return reflect.DeepEqual(a, b) }

// hasComments reports whether a line of a YAML text is a comment, or ends with one. It may take
// a line of a block scalar for one.
func hasComments(text []byte) bool {
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(strings.TrimSpace(line), "#") || strings.Contains(line, " #") {
			return true
		}
	}
	return false
}

func withLineEnd(text []byte) []byte {
	if len(text) > 0 && text[len(text)-1] != '\n' {
		return append(bytes.Clone(text), '\n')
	}
	return text
}

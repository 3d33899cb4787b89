package configfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/podstead/podstead/internal/suggest"
)

// Kind is the type of a document.
type Kind struct{ APIVersion, Kind string }

// Position is a line of a file, from 1; 0 if the line is unknown.
type Position struct {
	File string
	Line int
}

// String returns FILE:LINE.
func (p Position) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}

// Document is a document, or several of one kind that are merged.
type Document struct {
	// Fields are the fields as encoding/json decodes them, without apiVersion and kind.
	Fields map[string]any

	start     Position
	positions map[string]Position
}

func newDocument(start Position) *Document {
	return &Document{Fields: map[string]any{}, start: start, positions: map[string]Position{}}
}

// Position returns the position of a field by its path, such as clusterDNS[0] or
// evictionHard.memory.available, else that of the innermost field around it that has one.
func (d *Document) Position(path string) Position {
	for {
		if at, ok := d.positions[path]; ok {
			return at
		}
		end := strings.LastIndexAny(path, ".[")
		if end < 0 {
			return d.start
		}
		path = path[:end]
	}
}

// Has reports whether the document sets a field, by its path without indexes.
func (d *Document) Has(path string) bool {
	fields := d.Fields
	for {
		name, rest, more := strings.Cut(path, ".")
		value := fields[name]
		if !more || value == nil {
			return value != nil
		}
		fields, _ = value.(map[string]any)
		path = rest
	}
}

// Dir returns the directory to which a relative path in a field refers: that of the file that
// sets it.
func (d *Document) Dir(path string) string { return filepath.Dir(d.Position(path).File) }

// part is the text of one document.
type part struct {
	text []byte
	// before is the number of lines before it.
	before int
}

// split splits a stream of documents at the lines that begin with the marker. Such a line is
// always one: YAML does not permit it in a scalar.
func split(data []byte) []part {
	var parts []part
	current, line := part{}, 0
	for row := range bytes.Lines(bytes.TrimPrefix(data, []byte("\ufeff"))) {
		if rest, ok := bytes.CutPrefix(row, []byte("---")); ok &&
			(len(bytes.TrimSpace(rest)) == 0 || rest[0] == ' ' || rest[0] == '\t') {
			parts = append(parts, current)
			current = part{before: line}
		}
		current.text = append(current.text, row...)
		line++
	}
	return append(parts, current)
}

// decode decodes one document, and returns nil if there is none. The values come from
// sigs.k8s.io/yaml, as in the kubelet, which reads YAML 1.1: yes is true. The tree of the
// other parser only provides the lines.
func decode(file string, p part, kinds []Kind) (*Document, string, error) {
	text, err := sigsyaml.YAMLToJSONStrict(p.text)
	if err != nil {
		return nil, "", yamlError(file, p.before, err)
	}
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		return nil, "", fmt.Errorf("%s: %w", file, err)
	}
	doc := newDocument(Position{file, p.before + 1})
	switch value := value.(type) {
	case nil:
		return nil, "", nil
	case map[string]any:
		doc.Fields = value
	default:
		return nil, "", fmt.Errorf("%s: is not a mapping; it must have apiVersion and kind: %s", doc.start, describe(kinds))
	}
	var tree yaml.Node
	if yaml.Unmarshal(p.text, &tree) == nil && len(tree.Content) > 0 {
		doc.start.Line = p.before + tree.Content[0].Line
		doc.locate(tree.Content[0], "", p.before)
	}
	kind, err := doc.kind(kinds)
	return doc, kind, err
}

// kind returns the kind of a document, and removes the fields with it.
func (d *Document) kind(kinds []Kind) (string, error) {
	version, hasVersion := d.Fields["apiVersion"]
	kind, hasKind := d.Fields["kind"]
	if !hasVersion && !hasKind {
		return "", fmt.Errorf("%s: apiVersion and kind are missing: must be %s", d.start, describe(kinds))
	}
	var names []string
	for _, k := range kinds {
		if k.APIVersion == version && k.Kind == kind {
			delete(d.Fields, "apiVersion")
			delete(d.Fields, "kind")
			return k.Kind, nil
		}
		if names = append(names, k.Kind); k.Kind == kind {
			return "", fmt.Errorf("%s: apiVersion: %v: must be %s for kind %s", d.Position("apiVersion"), version, k.APIVersion,
				kind)
		}
	}
	hint := ""
	if name, ok := kind.(string); ok {
		if near := suggest.Nearest(name, names); near != "" {
			hint = "; did you mean " + near + "?"
		}
	}
	return "", fmt.Errorf("%s: kind: apiVersion %v and kind %v: must be %s%s", d.Position("kind"), version, kind,
		describe(kinds), hint)
}

// locate records the lines of all fields. It does not follow aliases, which may be cyclic:
// what they stand for has the line of the alias.
func (d *Document) locate(node *yaml.Node, path string, before int) {
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			key, value := node.Content[i], node.Content[i+1]
			name := joinPath(path, key.Value)
			d.positions[name] = Position{d.start.File, before + key.Line}
			d.locate(value, name, before)
		}
	case yaml.SequenceNode:
		for i, item := range node.Content {
			name := fmt.Sprintf("%s[%d]", path, i)
			d.positions[name] = Position{d.start.File, before + item.Line}
			d.locate(item, name, before)
		}
	}
}

func joinPath(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// yamlLine matches the line in the parser's messages.
var yamlLine = regexp.MustCompile(`line (\d+): `)

// yamlError puts the file and the line, counted from the start of the file, before the
// parser's message.
func yamlError(file string, before int, err error) error {
	text := strings.TrimPrefix(err.Error(), "error converting YAML to JSON: ")
	text = strings.TrimPrefix(strings.TrimPrefix(text, "yaml: "), "unmarshal errors:")
	at := Position{File: file}
	if match := yamlLine.FindStringSubmatch(text); match != nil {
		line, _ := strconv.Atoi(match[1])
		at.Line = before + line
		text = strings.Replace(text, match[0], "", 1)
	}
	return fmt.Errorf("%s: is not valid YAML: %s", at, strings.Join(strings.Fields(text), " "))
}

package manifest

import (
	"maps"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/podstead/podstead/manifest/validation"
)

// location is the position of an object in its unit.
type location struct {
	tree *yaml.Node
	// lineOffset is to be added to the lines of the tree.
	lineOffset int
	// path leads from the document to the object: "" for the document itself,
	// items[2] for a list item.
	path string
	// fields are the fields of the mappings visited so far.
	fields fieldIndex
}

// newLocation returns the location of a document whose tree begins after
// lineOffset lines.
func newLocation(tree *yaml.Node, before int) location {
	return location{tree: tree, lineOffset: before, fields: fieldIndex{}}
}

// fieldIndex holds the fields of mappings by name, so that many faults in one
// mapping do not take quadratic time.
type fieldIndex map[*yaml.Node]map[string]fieldNodes

// fieldNodes are the nodes of a field.
type fieldNodes struct{ key, value *yaml.Node }

// line returns the line of the field at a path within the object, or of its
// nearest existing ancestor.
func (p location) line(path string) int {
	node := p.tree
	line := node.Line
	for _, step := range splitPath(path) {
		key, value := p.fields.step(resolveAlias(node), step)
		if value == nil {
			break
		}
		node, line = value, key.Line
	}
	return p.lineOffset + line
}

// node returns the node at a path within the object; nil if there is none.
func (p location) node(path string) *yaml.Node {
	node := p.tree
	for _, step := range splitPath(path) {
		if _, node = p.fields.step(resolveAlias(node), step); node == nil {
			return nil
		}
	}
	return resolveAlias(node)
}

// schemaChecker returns a checker of the object's fields.
func (p location) schemaChecker() *validation.SchemaChecker {
	return &validation.SchemaChecker{Scalar: p.scalar}
}

// scalar returns the text of the scalar at a path within the object; empty if
// there is none.
func (p location) scalar(path string) string {
	if node := p.node(path); node != nil {
		return node.Value
	}
	return ""
}

// item returns the location of a list item in this object.
func (p location) item(path string) location {
	inner := location{tree: p.node(path), lineOffset: p.lineOffset, path: validation.JoinPath(p.path, path),
		fields: p.fields}
	if inner.tree == nil {
		inner.tree = p.tree
	}
	return inner
}

// pathStep is one part of a field path.
type pathStep struct {
	name string
	// bracket distinguishes [name], an index or a map key, from .name.
	bracket bool
}

// splitPath splits a field path, such as metadata.annotations[example.com/name]
// or spec.containers[0].image.
func splitPath(path string) []pathStep {
	var steps []pathStep
	for path != "" {
		if path[0] == '[' {
			end := bracketEnd(path)
			steps = append(steps, pathStep{name: path[1:end], bracket: true})
			path = path[min(end+1, len(path)):]
			continue
		}
		path = strings.TrimPrefix(path, ".")
		end := strings.IndexAny(path, ".[")
		if end < 0 {
			end = len(path)
		}
		if end > 0 {
			steps = append(steps, pathStep{name: path[:end]})
		}
		path = path[end:]
	}
	return steps
}

// bracketEnd returns the index of the bracket that closes the one at the start
// of a path. A key may contain brackets itself; the closing one is followed by
// another step or the end.
func bracketEnd(path string) int {
	for i := 1; i < len(path); i++ {
		if path[i] == ']' && (i+1 == len(path) || path[i+1] == '.' || path[i+1] == '[') {
			return i
		}
	}
	return len(path)
}

// step returns the node of a step in a mapping or sequence: the node to point
// at, and the value.
func (x fieldIndex) step(node *yaml.Node, s pathStep) (key, value *yaml.Node) {
	switch node.Kind {
	case yaml.SequenceNode:
		i, err := strconv.Atoi(s.name)
		if err == nil && s.bracket && i >= 0 && i < len(node.Content) {
			return node.Content[i], node.Content[i]
		}
	case yaml.MappingNode:
		found := x.fieldsOf(node, 0)[s.name]
		return found.key, found.value
	}
	return nil, nil
}

// fieldsOf returns the fields of a mapping: the merged ones, and its own, which
// override them. Of several fields with one name the last one counts.
func (x fieldIndex) fieldsOf(node *yaml.Node, depth int) map[string]fieldNodes {
	if fields, ok := x[node]; ok || depth > maxDepth {
		return fields
	}
	fields := make(map[string]fieldNodes, len(node.Content)/2)
	for i := 0; i+1 < len(node.Content); i += 2 {
		if !isMergeKey(node.Content[i]) {
			continue
		}
		merged := resolveAlias(node.Content[i+1])
		sources := []*yaml.Node{merged}
		if merged.Kind == yaml.SequenceNode {
			sources = merged.Content
		}
		for _, source := range sources {
			if source = resolveAlias(source); source.Kind == yaml.MappingNode {
				maps.Copy(fields, x.fieldsOf(source, depth+1))
			}
		}
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key := node.Content[i]
		if !isMergeKey(key) {
			fields[keyText(key)] = fieldNodes{key, node.Content[i+1]}
		}
	}
	x[node] = fields
	return fields
}

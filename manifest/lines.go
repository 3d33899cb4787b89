package manifest

import (
	"maps"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/podstead/podstead/manifest/validation"
)

// place is where an object stands in its unit.
type location struct {
	tree *yaml.Node
	// before is to be added to the lines of the tree.
	lineOffset int
	// path leads from the document to the object: "" for the document
	// itself, items[2] for one in a list.
	path string
	// fields are those of the mappings looked into so far.
	fields fieldIndex
}

// newPlace is the place of a document whose tree comes after some lines.
func newLocation(tree *yaml.Node, before int) location {
	return location{tree: tree, lineOffset: before, fields: fieldIndex{}}
}

// fieldIndex holds the fields of mappings by their names, so that many
// faults in one do not take the square of the time.
type fieldIndex map[*yaml.Node]map[string]fieldNodes

// fieldNodes are the nodes of a field.
type fieldNodes struct{ key, value *yaml.Node }

// line is that of the field at a path within the object, or of the nearest
// thing around it that is there.
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

// node is what stands at a path within the object; nil if nothing does.
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

// scalar is the text of the scalar at a path within the object; empty if there
// is none.
func (p location) scalar(path string) string {
	if node := p.node(path); node != nil {
		return node.Value
	}
	return ""
}

// item is the place of an item of a list in this object.
func (p location) item(path string) location {
	inner := location{tree: p.node(path), lineOffset: p.lineOffset, path: validation.JoinPath(p.path, path), fields: p.fields}
	if inner.tree == nil {
		inner.tree = p.tree
	}
	return inner
}

// pathStep is one part of a field path.
type pathStep struct {
	name string
	// bracket tells [name], an index or the key of a map, from .name.
	bracket bool
}

// splitPath takes a field path apart, such as
// metadata.annotations[example.com/name] or spec.containers[0].image.
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

// bracketEnd is where the bracket closes with which a path begins. A key may
// hold brackets itself; the closing one is followed by another step or nothing.
func bracketEnd(path string) int {
	for i := 1; i < len(path); i++ {
		if path[i] == ']' && (i+1 == len(path) || path[i+1] == '.' || path[i+1] == '[') {
			return i
		}
	}
	return len(path)
}

// step finds a step in a mapping or sequence: what to point at, and the value.
func (x fieldIndex) step(node *yaml.Node, s pathStep) (key, value *yaml.Node) {
	switch node.Kind {
	case yaml.SequenceNode:
		i, err := strconv.Atoi(s.name)
		if err == nil && s.bracket && i >= 0 && i < len(node.Content) {
			return node.Content[i], node.Content[i]
		}
	case yaml.MappingNode:
		found := x.of(node, 0)[s.name]
		return found.key, found.value
	}
	return nil, nil
}

// of lists the fields of a mapping: those that are merged in, and its own,
// which come before them. Of several of one name it is the last, which counts.
func (x fieldIndex) of(node *yaml.Node, depth int) map[string]fieldNodes {
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
				maps.Copy(fields, x.of(source, depth+1))
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

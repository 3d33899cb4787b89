package tree

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/podstead/podstead/manifest"
)

// maxValues bounds the values of a document with its aliases expanded. A large Compose file has
// some thousand.
const maxValues = 200_000

// Position is a place in a file. Line counts from 1; 0 is the file as a whole.
type Position struct {
	File string
	Line int
}

// Kind is the kind of a Node.
type Kind uint8

// The kinds of nodes.
const (
	Null Kind = iota
	Scalar
	Map
	List
)

// Node is a value of a document. A nil Node is absent; its methods return zero values.
type Node struct {
	Position
	Kind Kind
	// Text is that of a scalar.
	Text string
	// Fields are those of a map, in the order of the document; Items are those of a list.
	Fields []Field
	Items  []*Node
}

// Field is a field of a map. Its position is that of the key.
type Field struct {
	Position
	Key   string
	Value *Node
}

// Get returns the value of a field; nil without it.
func (n *Node) Get(key string) *Node {
	if n == nil {
		return nil
	}
	for i := range n.Fields {
		if n.Fields[i].Key == key {
			return n.Fields[i].Value
		}
	}
	return nil
}

// Set sets a field.
func (n *Node) Set(f Field) {
	for i := range n.Fields {
		if n.Fields[i].Key == f.Key {
			n.Fields[i] = f
			return
		}
	}
	n.Fields = append(n.Fields, f)
}

// Delete removes a field.
func (n *Node) Delete(key string) {
	for i := range n.Fields {
		if n.Fields[i].Key == key {
			n.Fields = append(n.Fields[:i:i], n.Fields[i+1:]...)
			return
		}
	}
}

// IsNull reports whether the value is absent or null.
func (n *Node) IsNull() bool { return n == nil || n.Kind == Null }

// Is reports whether the value is of a kind.
func (n *Node) Is(kind Kind) bool { return n != nil && n.Kind == kind }

// String returns the text of a scalar; empty for anything else.
func (n *Node) String() string {
	if n == nil {
		return ""
	}
	return n.Text
}

// Describe returns the kind of the value in words.
func (n *Node) Describe() string {
	switch {
	case n.IsNull():
		return "empty"
	case n.Kind == Map:
		return "a mapping"
	case n.Kind == List:
		return "a list"
	}
	return fmt.Sprintf("%q", n.Text)
}

// Clone returns a deep copy.
func (n *Node) Clone() *Node {
	if n == nil {
		return nil
	}
	clone := *n
	clone.Fields, clone.Items = nil, nil
	for _, f := range n.Fields {
		clone.Fields = append(clone.Fields, Field{Position: f.Position, Key: f.Key, Value: f.Value.Clone()})
	}
	for _, item := range n.Items {
		clone.Items = append(clone.Items, item.Clone())
	}
	return &clone
}

// Error is a fault of a document.
type Error struct {
	Position
	Path, Problem, Remedy string
}

// Error returns the problem without the position.
func (e *Error) Error() string { return e.Problem }

// New returns a document of a file as nodes. transform, which may be nil, is applied to the text
// of each scalar that is a value. The error is an *Error.
func New(file string, part *manifest.Part, transform func(at Position, text string) (string, error)) (*Node, error) {
	root, offset := part.Tree()
	b := builder{file: file, offset: offset, transform: transform}
	return b.node(root, "")
}

type builder struct {
	file      string
	offset    int
	values    int
	transform func(Position, string) (string, error)
}

func (b *builder) node(y *yaml.Node, path string) (*Node, error) {
	at := Position{File: b.file, Line: y.Line + b.offset}
	if y.Kind == yaml.AliasNode {
		y = y.Alias
	}
	if b.values++; b.values > maxValues {
		return nil, &Error{Position: at,
			Problem: fmt.Sprintf("contains more than %d values with its aliases expanded", maxValues), Remedy: "split the file"}
	}
	n := &Node{Position: at}
	if strings.HasPrefix(y.Tag, "!") && !strings.HasPrefix(y.Tag, "!!") {
		return nil, &Error{Position: at, Path: path, Problem: "has the tag " + y.Tag + ", which is not supported",
			Remedy: "write the file without it"}
	}
	switch y.Kind {
	case yaml.MappingNode:
		n.Kind = Map
		return n, b.fields(n, y, path)
	case yaml.SequenceNode:
		n.Kind = List
		for i, child := range y.Content {
			item, err := b.node(child, fmt.Sprintf("%s[%d]", path, i))
			if err != nil {
				return nil, err
			}
			n.Items = append(n.Items, item)
		}
		return n, nil
	}
	if y.Tag == "!!null" {
		return n, nil
	}
	n.Kind, n.Text = Scalar, y.Value
	if b.transform != nil {
		text, err := b.transform(at, y.Value)
		if err != nil {
			return nil, &Error{Position: at, Path: path, Problem: err.Error()}
		}
		n.Text = text
	}
	return n, nil
}

// fields adds the fields of a mapping: its own, and the merged ones that it does not set.
func (b *builder) fields(n *Node, y *yaml.Node, path string) error {
	var merged []*yaml.Node
	set := make(map[string]bool, len(y.Content)/2)
	for i := 0; i+1 < len(y.Content); i += 2 {
		key, value := y.Content[i], y.Content[i+1]
		if key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		at := Position{File: b.file, Line: key.Line + b.offset}
		if key.Kind != yaml.ScalarNode {
			return &Error{Position: at, Path: path, Problem: "a mapping or a list is used as a field name", Remedy: "quote it"}
		}
		if key.Value == "<<" && key.Tag == "!!merge" {
			merged = append(merged, value)
			continue
		}
		inner := join(path, key.Value)
		if set[key.Value] {
			return &Error{Position: at, Path: inner, Problem: "is set twice", Remedy: "remove one of them"}
		}
		set[key.Value] = true
		child, err := b.node(value, inner)
		if err != nil {
			return err
		}
		n.Fields = append(n.Fields, Field{Position: at, Key: key.Value, Value: child})
	}
	for _, source := range merged {
		if err := b.merge(n, set, source, path); err != nil {
			return err
		}
	}
	return nil
}

// merge adds the fields of a merged mapping that are not set.
func (b *builder) merge(n *Node, set map[string]bool, source *yaml.Node, path string) error {
	if source.Kind == yaml.AliasNode {
		source = source.Alias
	}
	if source.Kind == yaml.SequenceNode {
		for _, item := range source.Content {
			if err := b.merge(n, set, item, path); err != nil {
				return err
			}
		}
		return nil
	}
	from, err := b.node(source, path)
	if err != nil {
		return err
	}
	if from.Kind != Map {
		return &Error{Position: from.Position, Path: path, Problem: "<< merges " + from.Describe(),
			Remedy: "must be an alias of a mapping"}
	}
	for _, f := range from.Fields {
		if !set[f.Key] {
			set[f.Key] = true
			n.Fields = append(n.Fields, f)
		}
	}
	return nil
}

// join appends a field name to a path.
func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

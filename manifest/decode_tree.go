package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/podstead/podstead/manifest/validation"
)

const (
	// maxDepth is the maximum nesting depth of a document. A Pod needs about
	// twenty levels.
	maxDepth = 100
	// errTooDeepRemedy is the remedy for errTooDeep.
	errTooDeepRemedy = "must have at most 100 levels"
)

var errTooDeep = errors.New("is nested too deeply")

// rawDocument is one decoded document of a unit whose kind is not known yet.
type rawDocument struct {
	// value is the document as decoded by encoding/json, with json.Number for
	// numbers.
	value any
	// tree has the same content with line numbers and duplicate keys.
	tree *yaml.Node
	// lineOffset is to be added to the lines of the tree.
	lineOffset int
	// warnings are about the text; their lines are those of the tree.
	warnings []Fault
}

// checkTreeSize rejects a document that is nested too deeply, or that its
// aliases would make larger than a document may be. It visits each node once,
// however often an alias refers to it, so that it stays cheap for documents
// whose aliases expand exponentially.
func checkTreeSize(tree *yaml.Node) *Fault {
	b := treeMeasurer{known: map[*yaml.Node]treeSize{}}
	size := b.measure(tree, 0)
	switch {
	case b.tooDeep != nil:
		return &Fault{Line: b.tooDeep.Line, Problem: errTooDeep.Error(), Remedy: errTooDeepRemedy}
	case b.cycle != nil:
		return &Fault{Line: b.cycle.Line, Problem: fmt.Sprintf("*%s refers to a value that contains it", b.cycle.Value),
			Remedy: "replace the alias by the value"}
	case size.depth > maxDepth:
		return &Fault{Line: tree.Line, Problem: errTooDeep.Error() + " when its aliases are expanded",
			Remedy: errTooDeepRemedy}
	case b.alias != nil && size.weight > MaxUnitSize:
		return &Fault{Line: b.alias.Line, Problem: "YAML aliases expand to more than 10 MiB",
			Remedy: "replace aliases by their values, or split the document"}
	}
	return nil
}

type treeSize struct{ weight, depth int }

type treeMeasurer struct {
	// known are the sizes of the values with an anchor; values that are being
	// measured have depth -1.
	known map[*yaml.Node]treeSize
	// alias is the first alias; tooDeep and cycle are the first offending
	// nodes.
	alias, tooDeep, cycle *yaml.Node
}

// measure returns the size of a node with its aliases expanded. It stops at the
// first offending node.
func (b *treeMeasurer) measure(node *yaml.Node, depth int) treeSize {
	if b.tooDeep != nil || b.cycle != nil {
		return treeSize{}
	}
	if depth > maxDepth {
		b.tooDeep = node
		return treeSize{}
	}
	if node.Kind == yaml.AliasNode {
		if b.alias == nil {
			b.alias = node
		}
		size := b.known[node.Alias]
		if size.depth < 0 {
			b.cycle = node
		}
		return size
	}
	if node.Anchor != "" {
		b.known[node] = treeSize{depth: -1}
	}
	size := treeSize{weight: 1 + len(node.Value)}
	for _, child := range node.Content {
		inner := b.measure(child, depth+1)
		// The bound keeps the sum from overflowing.
		size.weight = min(size.weight+inner.weight, 2*MaxUnitSize)
		size.depth = max(size.depth, 1+inner.depth)
	}
	if node.Anchor != "" {
		b.known[node] = size
	}
	return size
}

// duplicateKey is a field that is set more than once.
type duplicateKey struct {
	path        string
	first, last int // lines
}

// maxDuplicatePaths is the maximum length of the paths of all duplicate keys of a
// document, in bytes. Those beyond it are not reported, and the document has faults
// enough.
const maxDuplicatePaths = 1 << 20

// duplicateKeys returns the fields that are set more than once, in the order of
// the document. A key that is merged in and then set is not a duplicate.
func duplicateKeys(tree *yaml.Node) []duplicateKey {
	var f duplicateFinder
	f.visit(tree, nil)
	return f.found
}

// duplicateFinder collects duplicate keys.
type duplicateFinder struct {
	found []duplicateKey
	// length is that of the paths found.
	length int
}

// nodePath is the path of a node. It becomes text only where there is a duplicate:
// the paths of all nodes of a deep document are much longer than the document.
type nodePath struct {
	parent *nodePath
	// step is a field name, or an index with its brackets.
	step string
}

func (p *nodePath) String() string {
	if p == nil {
		return ""
	}
	return validation.JoinPath(p.parent.String(), p.step)
}

func (f *duplicateFinder) visit(node *yaml.Node, path *nodePath) {
	switch node.Kind {
	case yaml.MappingNode:
		lines := make(map[string]int, len(node.Content)/2)
		for i := 0; i+1 < len(node.Content); i += 2 {
			key := keyText(node.Content[i])
			at := &nodePath{path, key}
			if first, twice := lines[key]; twice {
				f.add(at, first, node.Content[i].Line)
			} else if !isMergeKey(node.Content[i]) {
				lines[key] = node.Content[i].Line
			}
			f.visit(node.Content[i+1], at)
		}
	case yaml.SequenceNode:
		for i, item := range node.Content {
			f.visit(item, &nodePath{path, fmt.Sprintf("[%d]", i)})
		}
	}
}

func (f *duplicateFinder) add(at *nodePath, first, last int) {
	if f.length > maxDuplicatePaths {
		return
	}
	path := at.String()
	f.length += len(path)
	f.found = append(f.found, duplicateKey{path: path, first: first, last: last})
}

// normalizeKeys turns every key of a tree into its string in JSON. It returns a
// key that JSON cannot distinguish from another key of the same mapping
// although YAML can, such as 1 and "1", since it would be undefined which value
// is used.
func normalizeKeys(node *yaml.Node) (mixed *yaml.Node) {
	if node.Kind == yaml.MappingNode {
		spellings := make(map[string]yaml.Node, len(node.Content)/2)
		for i := 0; i+1 < len(node.Content); i += 2 {
			key := resolveAlias(node.Content[i])
			text := keyText(key)
			other, twice := spellings[text]
			if twice && (other.Value != key.Value || isPlain(&other) != isPlain(key)) &&
				!(isStringKey(&other) && isStringKey(key)) {
				return key
			}
			spellings[text] = *key
			if key == node.Content[i] && !isMergeKey(key) {
				key.Value, key.Style = text, yaml.DoubleQuotedStyle
			}
		}
	}
	for _, child := range node.Content {
		if mixed := normalizeKeys(child); mixed != nil {
			return mixed
		}
	}
	return nil
}

// isStringKey reports whether a key is a string, quoted or not.
func isStringKey(key *yaml.Node) bool {
	return !isPlain(key) || !mayNotBeString(key.Value)
}

func isPlain(node *yaml.Node) bool {
	const quoted = yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
	return node.Style&quoted == 0
}

// mayNotBeString reports whether YAML 1.1 may read a plain key as something
// other than a string: a number, a boolean or null.
func mayNotBeString(plain string) bool {
	if plain == "" || strings.IndexByte("0123456789+-.~", plain[0]) >= 0 {
		return true
	}
	switch strings.ToLower(plain) {
	case "y", "n", "yes", "no", "on", "off", "true", "false", "null":
		return true
	}
	return false
}

// isDecimal reports whether a whole number is written as in JSON.
func isDecimal(text string) bool {
	if text == "" || text[0] == '0' || len(text) > 18 {
		return false
	}
	return strings.Trim(text, "0123456789") == ""
}

// keyText returns a mapping key as it is in JSON.
func keyText(key *yaml.Node) string {
	key = resolveAlias(key)
	if !isPlain(key) || !mayNotBeString(key.Value) || isDecimal(key.Value) {
		return key.Value
	}
	text, err := sigsyaml.YAMLToJSON([]byte("{" + key.Value + ": 0}"))
	var object map[string]any
	if err != nil || json.Unmarshal(text, &object) != nil || len(object) != 1 {
		return key.Value
	}
	for name := range object {
		return name
	}
	return key.Value
}

func isMergeKey(key *yaml.Node) bool {
	return key.Value == "<<" && isPlain(key)
}

// resolveAlias returns the node that an alias refers to, or else the node
// itself.
func resolveAlias(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode && node.Alias != nil {
		return node.Alias
	}
	return node
}

package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	sigsyaml "sigs.k8s.io/yaml"
)

// decodeYAML decodes the one document of a chunk. It returns nil for a null
// document.
//
// The value comes from sigs.k8s.io/yaml, which reads YAML 1.1 as kubectl and
// the kubelet do: yes is true and 0644 is octal. The tree comes from another
// parser and only provides line numbers and the text of scalars.
func decodeYAML(c chunk) (*rawDocument, *Fault) {
	tree, err := yamlTree(c.text)
	if err != nil {
		return nil, yamlFault(c, err)
	}
	if tree == nil {
		return nil, nil
	}
	if fault := checkTreeSize(tree); fault != nil {
		fault.Line += c.lineOffset
		return nil, fault
	}
	warnings := booleanKeys(tree, nil)
	if key := normalizeKeys(tree); key != nil {
		return nil, &Fault{
			Line:    c.lineOffset + key.Line,
			Problem: fmt.Sprintf("the key %s is set twice in two spellings", key.Value),
			Remedy:  "keep one of them",
		}
	}
	text, err := sigsyaml.YAMLToJSON(c.text)
	if err != nil {
		return nil, valueFault(c, tree, err)
	}
	value, err := jsonValue(text)
	if err != nil {
		return nil, valueFault(c, tree, err)
	}
	if value == nil {
		return nil, nil
	}
	return &rawDocument{value: value, tree: tree, lineOffset: c.lineOffset, warnings: warnings}, nil
}

var errMoreDocuments = errors.New("a second document begins without --- at the start of a line")

// yamlTree parses the one document of a text. It returns nil if there is none.
func yamlTree(text []byte) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var document, more yaml.Node
	switch err := decoder.Decode(&document); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, err
	}
	switch err := decoder.Decode(&more); {
	case err == nil:
		return nil, errMoreDocuments
	case !errors.Is(err, io.EOF):
		return nil, err
	}
	tree := document.Content[0]
	boundLines(tree, lastLine(text))
	return tree, nil
}

// boundLines corrects the lines of empty values at the end of a text: the parser
// reports the line after the last one.
func boundLines(node *yaml.Node, last int) {
	node.Line = min(node.Line, last)
	for _, child := range node.Content {
		boundLines(child, last)
	}
}

// yamlBreaks are the characters that end a line in YAML 1.1.
const yamlBreaks = "\r\n\u0085\u2028\u2029"

// lastLine returns the last line of a text, from 1, that is not empty. It counts lines
// as the parser does.
func lastLine(text []byte) int {
	text = bytes.TrimRight(text, yamlBreaks)
	lines := 1 - bytes.Count(text, []byte("\r\n"))
	for _, r := range yamlBreaks {
		lines += bytes.Count(text, []byte(string(r)))
	}
	return lines
}

// yamlLine matches the prefix of the parsers' messages.
var yamlLine = regexp.MustCompile(`^(?:yaml: )?(?:unmarshal errors:\s*)?(?:line (\d+): )?`)

// yamlMessage returns the line of an error, from 1 in its chunk, and its bare
// text.
func yamlMessage(err error) (int, string) {
	text := strings.TrimPrefix(err.Error(), "error converting YAML to JSON: ")
	match := yamlLine.FindStringSubmatch(text)
	line, _ := strconv.Atoi(match[1])
	return line, strings.Join(strings.Fields(text[len(match[0]):]), " ")
}

// yamlFault describes a syntax error. The parser reports the line on which the
// surrounding block begins, so that the actual line has to be searched.
func yamlFault(c chunk, err error) *Fault {
	line, message := yamlMessage(err)
	if found := failingLine(c.text); found > 0 {
		line = found
	}
	fault := &Fault{Line: c.lineOffset + max(line, 1), Problem: "is not valid YAML: " + message}
	if indent := lineIndent(c.text, line); strings.Contains(indent, "\t") {
		fault.Problem = "is not valid YAML: the line is indented with a tab"
		fault.Remedy = "indent with spaces"
		return fault
	}
	if strings.Contains(lineText(c.text, line), "{{") {
		fault.Remedy = "render the template if this is one, or quote the braces"
		return fault
	}
	for _, known := range yamlRemedies {
		if strings.Contains(message, known.message) {
			fault.Remedy = known.remedy
			break
		}
	}
	return fault
}

// yamlRemedies maps errors of the parser to their usual remedies.
var yamlRemedies = []struct{ message, remedy string }{
	{"mapping values are not allowed", "quote a value that contains a colon, or fix the indentation of this line"},
	{"did not find expected key", "fix the indentation of this line, or a quote before it"},
	{"could not find expected ':'", "put a colon and a space after the key"},
	{"did not find expected '-' indicator", "indent this line like the other items of the list"},
	{"did not find expected ',' or ']'", "close the bracket, or put a comma between the items"},
	{"did not find expected ',' or '}'", "close the brace, or put a comma between the fields"},
	{"unexpected end of stream", "close the quote that begins here"},
	{"cannot start any token", "quote the value"},
	{"unknown anchor", "use an anchor that is defined before it, or quote the value"},
	{"did not find expected alphabetic or numeric character", "quote a value that begins with * or &"},
	{"unknown escape character", "use single quotes, or double the backslash"},
	{"block sequence entries are not allowed", "start the list on a line of its own"},
	{"incompatible YAML document", "remove the %YAML line"},
	{"a second document begins", "separate documents by a line with only ---"},
}

// lineText returns the text of a line, counted from 1.
func lineText(text []byte, line int) string {
	for range line - 1 {
		_, text, _ = bytes.Cut(text, []byte("\n"))
	}
	row, _, _ := bytes.Cut(text, []byte("\n"))
	return string(row)
}

// lineIndent returns the white space at the start of a line, counted from 1.
func lineIndent(text []byte, line int) string {
	row := lineText(text, line)
	return row[:len(row)-len(strings.TrimLeft(row, " \t"))]
}

const (
	// maxSearched is the maximum length of the text that failingLine searches,
	// in bytes.
	maxSearched = 256 << 10
	// maxParsed is the maximum length of all texts that failingLine parses, in
	// bytes; it bounds the time. A search that is cut short costs precision:
	// the fault names the line where the surrounding block begins.
	maxParsed = 2 << 20
	// maxSpan is how many lines of a quoted value or a pair of brackets
	// failingLine skips.
	maxSpan = 20
)

// failingLine returns the first line, from 1, at which the text becomes invalid
// whatever lines follow; 0 if it cannot be determined cheaply.
func failingLine(text []byte) int {
	return searchFailingLine(text, func(text []byte) bool {
		_, err := yamlTree(text)
		return err == nil
	})
}

// searchFailingLine is failingLine with the parser.
func searchFailingLine(text []byte, valid func([]byte) bool) int {
	if len(text) > maxSearched {
		return 0
	}
	rows := bytes.SplitAfter(text, []byte("\n"))
	ends := make([]int, 1, len(rows)+1)
	for _, row := range rows {
		ends = append(ends, ends[len(ends)-1]+len(row))
	}
	budget := maxParsed
	parses := func(lines int) bool {
		if budget -= ends[lines]; budget < 0 {
			return false
		}
		return valid(text[:ends[lines]])
	}
	good, bad := 0, len(rows)
	for {
		for bad-good > 1 {
			if middle := (good + bad) / 2; parses(middle) {
				good = middle
			} else {
				bad = middle
			}
		}
		// This line may only open what a later one closes.
		later := bad + 1
		for later < len(rows) && later <= bad+maxSpan && !parses(later) {
			later++
		}
		switch {
		case budget < 0:
			return 0
		case later >= len(rows) || later > bad+maxSpan:
			return bad
		}
		good, bad = later, len(rows)
	}
}

// valueFault describes an error in converting YAML to JSON.
func valueFault(c chunk, tree *yaml.Node, err error) *Fault {
	line, message := yamlMessage(err)
	fault := &Fault{Line: c.lineOffset + max(line, tree.Line), Problem: "is not valid: " + message}
	if strings.Contains(message, "invalid map key: ") {
		fault.Problem = "a mapping or a list is used as a field name"
		fault.Remedy = "render the template if this is one, or quote a value that begins with a brace"
		if node := findComplexKey(tree); node != nil {
			fault.Line = c.lineOffset + node.Line
		}
	}
	if strings.Contains(message, "unsupported value: ") {
		fault.Remedy = "must be a finite number, or quoted"
		if node := findScalar(tree, isInfinite); node != nil {
			fault.Line = c.lineOffset + node.Line
			fault.Problem = fmt.Sprintf("%s is not a finite number", node.Value)
		}
	}
	return fault
}

// findComplexKey returns the first key that is not a scalar, nil if there is
// none.
func findComplexKey(node *yaml.Node) *yaml.Node {
	for i, child := range node.Content {
		if node.Kind == yaml.MappingNode && i%2 == 0 && (child.Kind == yaml.MappingNode || child.Kind == yaml.SequenceNode) {
			return child
		}
		if found := findComplexKey(child); found != nil {
			return found
		}
	}
	return nil
}

func isInfinite(node *yaml.Node) bool {
	if node.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 {
		return false
	}
	switch strings.TrimLeft(strings.ToLower(node.Value), "+-") {
	case ".inf", ".nan":
		return true
	}
	return false
}

func findScalar(node *yaml.Node, desired func(*yaml.Node) bool) *yaml.Node {
	if node.Kind == yaml.ScalarNode && desired(node) {
		return node
	}
	for _, child := range node.Content {
		if found := findScalar(child, desired); found != nil {
			return found
		}
	}
	return nil
}

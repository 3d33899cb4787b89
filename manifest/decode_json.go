package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// looksLikeJSON reports whether a chunk begins with a brace.
func looksLikeJSON(text []byte) bool {
	text = bytes.TrimSpace(text)
	return len(text) > 0 && text[0] == '{'
}

// beginsAsJSON reports whether the author of a chunk meant JSON and not YAML in
// flow style: the first key is quoted.
func beginsAsJSON(text []byte) bool {
	text = bytes.TrimSpace(bytes.TrimPrefix(bytes.TrimSpace(text), []byte("{")))
	return len(text) == 0 || text[0] == '"' || text[0] == '}'
}

// decodeJSON decodes the JSON documents of a chunk, one after the other.
func decodeJSON(c chunk) ([]rawDocument, *Fault) {
	var docs []rawDocument
	decoder := json.NewDecoder(bytes.NewReader(c.text))
	line, counted := c.lineOffset, 0
	for {
		if len(docs) > maxObjects {
			// The unit has too many, so that no others matter.
			return docs, nil
		}
		var raw json.RawMessage
		begin := int(decoder.InputOffset())
		err := decoder.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return docs, nil
		}
		if err != nil {
			return nil, jsonFault(c, err, begin, len(docs) > 0)
		}
		at := int(decoder.InputOffset()) - len(raw)
		line, counted = line+bytes.Count(c.text[counted:at], []byte("\n")), at
		before := line
		reader := &jsonTree{text: raw, tokens: json.NewDecoder(bytes.NewReader(raw)), line: 1}
		reader.tokens.UseNumber()
		tree, err := reader.value(0)
		if err != nil {
			return nil, &Fault{Line: before + reader.line, Problem: err.Error(), Remedy: errTooDeepRemedy}
		}
		value, err := jsonValue(raw)
		if err != nil {
			return nil, &Fault{Line: before + 1, Problem: "is not valid JSON: " + err.Error()}
		}
		docs = append(docs, rawDocument{value: wholeNumbers(value), tree: tree, lineOffset: before})
	}
}

func jsonFault(c chunk, err error, begin int, trailing bool) *Fault {
	offset := len(c.text)
	if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
		offset = max(int(syntax.Offset)-1, 0)
	}
	fault := &Fault{
		Line:    c.lineOffset + lineAt(c.text, offset),
		Problem: "is not valid JSON: " + err.Error(),
		Remedy:  "look for a missing or extra comma, quote or bracket here or just before",
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		fault.Line = c.lineOffset + lineAt(c.text, len(bytes.TrimRight(c.text, " \t\r\n")))
		fault.Problem = "is not valid JSON: it ends in the middle of the document"
		fault.Remedy = "close every brace, bracket and quote"
	}
	if trailing {
		rest := c.text[begin:]
		offset = begin + len(rest) - len(bytes.TrimLeft(rest, " \t\r\n"))
		fault.Line = c.lineOffset + lineAt(c.text, offset)
		fault.Problem = "has text after the end of the JSON document"
		fault.Remedy = "remove it, or start another document with {"
	}
	return fault
}

// wholeNumbers replaces numbers such as 30.0 and 3e1 in a decoded value by 30, which is
// what YAML reads in them.
func wholeNumbers(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for key, field := range value {
			value[key] = wholeNumbers(field)
		}
	case []any:
		for i, item := range value {
			value[i] = wholeNumbers(item)
		}
	case json.Number:
		const exact = 1 << 53 // a float64 has all whole numbers up to this one
		if !strings.ContainsAny(value.String(), ".eE") {
			return value
		}
		if number, err := value.Float64(); err == nil && number == math.Trunc(number) && math.Abs(number) < exact {
			return json.Number(strconv.FormatInt(int64(number), 10))
		}
	}
	return value
}

// jsonValue decodes a JSON text and keeps numbers as they are written.
func jsonValue(text []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	err := decoder.Decode(&value)
	return value, err
}

// jsonTree builds the node tree of a valid JSON text, since a YAML parser does
// not read all of JSON: it fails at escaped surrogate pairs.
type jsonTree struct {
	text   []byte
	tokens *json.Decoder
	// line is that of offset.
	line   int
	offset int
}

func (t *jsonTree) value(depth int) (*yaml.Node, error) {
	token, err := t.tokens.Token()
	if err != nil {
		return nil, err
	}
	end := int(t.tokens.InputOffset())
	// A token is on one line, so that its end is on its line.
	t.line += bytes.Count(t.text[t.offset:end], []byte("\n"))
	t.offset = end
	node := &yaml.Node{Kind: yaml.ScalarNode, Line: t.line, Style: yaml.DoubleQuotedStyle}
	switch token := token.(type) {
	case json.Delim:
		if depth >= maxDepth {
			return nil, errTooDeep
		}
		node.Kind, node.Style = yaml.SequenceNode, yaml.FlowStyle
		if token == '{' {
			node.Kind = yaml.MappingNode
		}
		for t.tokens.More() {
			// The keys of an object are returned as values of their own.
			item, err := t.value(depth + 1)
			if err != nil {
				return nil, err
			}
			node.Content = append(node.Content, item)
		}
		_, err := t.tokens.Token()
		return node, err
	case string:
		node.Value = token
	case json.Number:
		node.Value, node.Style = token.String(), 0
	case bool:
		node.Value, node.Style = "false", 0
		if token {
			node.Value = "true"
		}
	case nil:
		node.Value, node.Style = "null", 0
	}
	return node, nil
}

package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Part is one document in the text of a unit, for programs that edit manifests.
type Part struct {
	// Begin is the offset in bytes at which the document's part of the text begins: at its
	// marker, or after the document before it. Start and End enclose its content, without the
	// comments and blank lines before and after it; the content ends with a line break, unless
	// it ends the text or shares a line with something else.
	Begin, Start, End int
	// JSON reports that the document is JSON and not YAML.
	JSON bool
	// List reports that the document is a list, whose items are the objects.
	List bool
	// Refs are the objects that the document declares, as far as they have a kind and a name:
	// one, or the items of a list.
	Refs []ObjectRef
	// Value is the document as decoded, with json.Number for numbers.
	Value any
	at    location
	chunk chunk
}

// Line returns the line in the unit, from 1, of the field at a path such as
// spec.containers[0].image, or of its nearest ancestor that exists.
func (p *Part) Line(path string) int { return p.at.line(path) }

// Tree returns the document as YAML nodes with its keys as they are written, and what is to be
// added to their lines. It is not nested too deeply, and its aliases do not expand to more than
// MaxUnitSize.
func (p *Part) Tree() (tree *yaml.Node, lineOffset int) {
	if tree, err := yamlTree(p.chunk.text); err == nil && tree != nil && !p.JSON {
		return tree, p.chunk.lineOffset
	}
	return p.at.tree, p.at.lineOffset
}

// Parts returns the documents in the text of a unit, and the faults of those that cannot be
// decoded. It does not validate the others.
func Parts(unit string, data []byte) ([]Part, Faults) {
	text, fault := decodeText(data)
	if fault != nil {
		fault.Unit = unit
		return nil, Faults{*fault}
	}
	before := len(data) - len(text) // a byte order mark
	var parts []Part
	var faults Faults
	for _, c := range splitChunks(text) {
		raws, fault := decodeChunk(c)
		if fault != nil {
			if mayBeSecret(c) {
				fault.Problem = redactQuoted(fault.Problem)
			}
			fault.Unit = unit
			faults = append(faults, *fault)
			continue
		}
		spans := contentSpans(c, raws)
		for i := range raws {
			part := spans[i]
			part.Begin, part.Start, part.End = part.Begin+before, part.Start+before, part.End+before
			part.Value = raws[i].value
			part.at, part.chunk = newLocation(raws[i].tree, raws[i].lineOffset), c
			part.List, part.Refs = refsOf(raws[i].value)
			parts = append(parts, part)
		}
	}
	return parts, faults
}

// contentSpans returns where the documents of a chunk are in the text.
func contentSpans(c chunk, raws []rawDocument) []Part {
	start, end := contentOf(c.text)
	if len(raws) != 1 || looksLikeJSON(c.text[start:end]) {
		if spans := jsonSpans(c, start); len(spans) == len(raws) {
			return spans
		}
	}
	spans := make([]Part, len(raws))
	for i := range spans {
		spans[i] = Part{Begin: c.offset, Start: c.offset + start, End: c.offset + end}
	}
	return spans
}

// jsonSpans returns where the JSON documents of a chunk are; nil if it is not JSON.
func jsonSpans(c chunk, start int) (spans []Part) {
	decoder := json.NewDecoder(bytes.NewReader(c.text[start:]))
	begin := 0
	for {
		var raw json.RawMessage
		err := decoder.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return spans
		}
		if err != nil {
			return nil
		}
		end := start + int(decoder.InputOffset())
		spans = append(spans, Part{Begin: c.offset + begin, Start: c.offset + end - len(raw), End: c.offset + end,
			JSON: true})
		begin = end
	}
}

// contentOf returns where the content of a chunk begins and ends: without its document marker,
// directives, and the comments and blank lines around it. An indented comment after the content
// may be the end of a block scalar, and counts as content.
func contentOf(text []byte) (start, end int) {
	end = len(text)
	for at := 0; at < len(text); {
		next := len(text)
		if i := bytes.IndexByte(text[at:], '\n'); i >= 0 {
			next = at + i + 1
		}
		switch row := text[at:next]; {
		case isMarker(row, "---"):
			if !isBlankOrComment(row[3:]) {
				start = at + 3 + len(row[3:]) - len(bytes.TrimLeft(row[3:], " \t"))
				return start, contentEnd(text, start)
			}
		case row[0] == '%' || isBlankOrComment(row):
		default:
			return at, contentEnd(text, at)
		}
		at = next
	}
	return end, end
}

// contentEnd returns where the content that begins at start ends.
func contentEnd(text []byte, start int) int {
	end := len(text)
	for end > start {
		row := start
		if i := bytes.LastIndexByte(text[start:end-1], '\n'); i >= 0 {
			row = start + i + 1
		}
		if line := text[row:end]; row == start || line[0] != '#' && len(bytes.TrimSpace(line)) > 0 {
			break
		}
		end = row
	}
	if keepsLines.Match(text[start:end]) {
		// The blank lines after a block scalar belong to it, also at the end.
		for end < len(text) {
			next := len(text)
			if i := bytes.IndexByte(text[end:], '\n'); i >= 0 {
				next = end + i + 1
			}
			if len(bytes.TrimSpace(text[end:next])) > 0 {
				break
			}
			end = next
		}
	}
	return end
}

// keepsLines matches the header of a block scalar that keeps the line breaks at its end. It may
// match a text, after which blank lines are then content without a meaning.
var keepsLines = regexp.MustCompile(`(?m)[|>][1-9]?\+[1-9]?[ \t]*(#.*)?\r?$`)

// refsOf returns the objects that a document declares, and whether it is a list of them.
func refsOf(value any) (list bool, refs []ObjectRef) {
	object, ok := value.(map[string]any)
	if !ok {
		return false, nil
	}
	kind, _ := object["kind"].(string)
	if kind != kindList && kind != kindPodList {
		if ref, ok := RefOf(object); ok {
			refs = append(refs, ref)
		}
		return false, refs
	}
	items, _ := object["items"].([]any)
	for _, item := range items {
		item, _ := item.(map[string]any)
		if ref, ok := RefOf(item); ok {
			refs = append(refs, ref)
		} else if kind == kindPodList && item["kind"] == nil {
			if ref, ok := refWithKind(item, kindPod); ok {
				refs = append(refs, ref)
			}
		}
	}
	return true, refs
}

// RefOf returns the reference to a decoded object, false if it has no kind or no name.
func RefOf(object map[string]any) (ObjectRef, bool) {
	kind, _ := object["kind"].(string)
	return refWithKind(object, kind)
}

func refWithKind(object map[string]any, kind string) (ObjectRef, bool) {
	metadata, _ := object["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	ref := ObjectRef{Kind: kind, Name: name}
	if !isClusterScoped(kind) {
		if ref.Namespace, _ = metadata["namespace"].(string); ref.Namespace == "" {
			ref.Namespace = metav1.NamespaceDefault
		}
	}
	return ref, kind != "" && name != ""
}

package manifest

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

const (
	// MaxUnitSize is the maximum size of a unit, which is one file or URL body, or all
	// files of an artifact, in bytes. It is the kubelet's limit for a manifest.
	MaxUnitSize = 10 << 20
	// maxValues is the maximum number of values in a unit: reading each takes
	// some hundred bytes of memory. A pod has about a hundred.
	maxValues = 1_000_000
	// maxObjects is the maximum number of documents in a unit and items in its
	// lists.
	maxObjects = 10_000
)

// decodeText checks that data is text of a permitted size, and removes a byte
// order mark.
func decodeText(data []byte) ([]byte, *Fault) {
	if len(data) > MaxUnitSize {
		return nil, &Fault{
			Problem: fmt.Sprintf("is %d bytes long", len(data)),
			Remedy:  fmt.Sprintf("must be at most %d bytes (10 MiB)", MaxUnitSize),
		}
	}
	for _, mark := range []string{"\xff\xfe", "\xfe\xff"} {
		if bytes.HasPrefix(data, []byte(mark)) {
			return nil, &Fault{Problem: "is UTF-16 text", Remedy: "save it as UTF-8"}
		}
	}
	text := bytes.TrimPrefix(data, []byte("\ufeff"))
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && size <= 1 || !isTextRune(r) {
			return nil, &Fault{
				Line:    lineAt(text, i),
				Problem: fmt.Sprintf("is not text: it contains the byte 0x%02x", text[i]),
				Remedy:  "must be YAML or JSON in UTF-8",
			}
		}
		i += size
	}
	if countValues(text) > maxValues {
		return nil, &Fault{
			Problem: fmt.Sprintf("contains more than %d values", maxValues),
			Remedy:  "split it into several files",
		}
	}
	return text, nil
}

// countValues returns a lower bound of the number of values in a text: each is
// separated from the previous one by one of these characters.
func countValues(text []byte) int {
	count := 0
	for i, c := range text {
		switch c {
		case ',', '[', '{', ':', '\n', '\r':
			count++
		case '-', '?':
			if i+1 < len(text) && (text[i+1] == ' ' || text[i+1] == '\t') {
				count++
			}
		}
	}
	return count
}

// isTextRune reports whether YAML permits a character: control characters other
// than white space are not permitted.
func isTextRune(r rune) bool {
	switch {
	case r == '\t', r == '\n', r == '\r', r == 0x85:
		return true
	case r < 0x20, r >= 0x7f && r < 0xa0, r == 0xfeff:
		return false
	}
	return true
}

// lineAt returns the line, from 1, of the byte at an offset.
func lineAt(text []byte, offset int) int {
	return 1 + bytes.Count(text[:min(offset, len(text))], []byte("\n"))
}

// chunk is the text of one YAML document, or of several consecutive JSON
// documents.
type chunk struct {
	text []byte
	// lineOffset is the number of lines of the unit before the text.
	lineOffset int
	// offset is the number of bytes of the unit before the text.
	offset int
}

// splitChunks splits a YAML stream at its document markers, which stay in
// place, and omits documents that contain only comments. A line that begins
// with a marker is always one: YAML does not permit it in a scalar, and JSON
// strings have no line breaks.
func splitChunks(text []byte) []chunk {
	var chunks []chunk
	start, startLine, line := 0, 0, 0
	content, marked := false, false
	cut := func(end int) {
		if content {
			chunks = append(chunks, chunk{text: text[start:end], lineOffset: startLine, offset: start})
		}
		content, marked = false, false
	}
	for at := 0; at < len(text); line++ {
		next := len(text)
		if i := bytes.IndexByte(text[at:], '\n'); i >= 0 {
			next = at + i + 1
		}
		row := text[at:next]
		switch {
		case isMarker(row, "---"):
			// marked { || Directives belong to the document that follows them.
			if content || marked {
				cut(at)
				start, startLine = at, line
			}
			marked = true
			content = !isBlankOrComment(row[3:])
		case isMarker(row, "..."):
			cut(at)
			start, startLine = next, line+1
		case !isBlankOrComment(row) && (marked || row[0] != '%'):
			content = true
		}
		at = next
	}
	cut(len(text))
	return chunks
}

func isMarker(row []byte, marker string) bool {
	rest, ok := bytes.CutPrefix(row, []byte(marker))
	return ok && (len(rest) == 0 || bytes.IndexByte([]byte(" \t\r\n"), rest[0]) >= 0)
}

// isBlankOrComment reports whether a line contains only white space or a
// comment.
func isBlankOrComment(row []byte) bool {
	row = bytes.TrimSpace(row)
	return len(row) == 0 || row[0] == '#'
}

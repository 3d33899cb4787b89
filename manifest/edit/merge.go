package edit

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/podstead/podstead/manifest"
)

// merge changes a YAML text to a desired value line by line, so that the comments, the order and
// the style of what stays are kept. It returns nil if it cannot, such as for text in flow style.
//
// The result is decoded again and compared: a wrong merge is a failed one.
func merge(text []byte, have, want map[string]any) []byte {
	var document yaml.Node
	if strings.ContainsAny(string(text), "\r\u0085\u2028\u2029") || yaml.Unmarshal(text, &document) != nil ||
		len(document.Content) != 1 {
		return nil
	}
	m := merger{lines: strings.SplitAfter(string(withLineEnd(text)), "\n")}
	m.lines = m.lines[:len(m.lines)-1] // what follows the last line break
	if !m.mapping(document.Content[0], have, want, len(m.lines)) {
		return nil
	}
	merged := []byte(m.apply())
	parts, faults := manifest.Parts("", merged)
	if len(faults) > 0 || len(parts) != 1 || !sameValue(parts[0].Value, want) {
		return nil
	}
	return merged
}

// merger collects changes of lines.
type merger struct {
	lines []string
	edits []lineEdit
}

// lineEdit replaces the lines from first to last, which count from 1. With last before first it
// inserts before first.
type lineEdit struct {
	first, last int
	text        string
}

func (m *merger) apply() string {
	slices.SortStableFunc(m.edits, func(a, b lineEdit) int { return a.first - b.first })
	var b strings.Builder
	next := 1
	for _, e := range m.edits {
		for ; next < e.first; next++ {
			b.WriteString(m.lines[next-1])
		}
		b.WriteString(e.text)
		next = max(next, e.last+1)
	}
	for ; next <= len(m.lines); next++ {
		b.WriteString(m.lines[next-1])
	}
	return b.String()
}

// mapping changes a mapping in block style whose last line is end. It returns false, without
// changes, if it cannot.
func (m *merger) mapping(node *yaml.Node, have, want map[string]any, end int) bool {
	if !isBlock(node, yaml.MappingNode) || len(node.Content) != 2*len(have) || len(have) == 0 {
		return false
	}
	before := len(m.edits)
	indent := node.Content[0].Column - 1
	present := map[string]bool{}
	for i := 0; i < len(node.Content); i += 2 {
		key := node.Content[i]
		pair := pair{key: key, value: node.Content[i+1], last: end}
		if i+2 < len(node.Content) {
			pair.last = node.Content[i+2].Line - 1
		}
		pair.last = m.contentEnd(key.Line, pair.last, indent)
		old, known := have[key.Value]
		if !known || key.Column-1 != indent {
			m.edits = m.edits[:before]
			return false // a merge key, or one that is not a string
		}
		present[key.Value] = true
		desired, keep := want[key.Value]
		switch {
		case keep && sameValue(old, desired):
		case !m.pair(pair, old, desired, keep):
			m.edits = m.edits[:before]
			return false
		}
	}
	var added []string
	for key := range want {
		if !present[key] {
			added = append(added, key)
		}
	}
	slices.Sort(added)
	last := m.contentEnd(node.Line, end, indent)
	for _, key := range added {
		m.edits = append(m.edits, lineEdit{first: last + 1, last: last, text: render(key, want[key], indent)})
	}
	return true
}

// pair is a key of a mapping with its value, up to the line last.
type pair struct {
	key, value *yaml.Node
	last       int
}

// pair changes the value of a key, or removes both.
func (m *merger) pair(p pair, old, want any, keep bool) bool {
	line := m.lines[p.key.Line-1]
	indent := p.key.Column - 1
	alone := strings.TrimSpace(column(line, indent)) == ""
	if !keep {
		if alone {
			m.edits = append(m.edits, lineEdit{first: p.key.Line, last: p.last})
		}
		return alone // the first key after a dash cannot be removed
	}
	if m.value(p.value, old, want, p.last) {
		return true
	}
	text := render(p.key.Value, want, indent)
	if !alone {
		text = column(line, indent) + text[indent:]
	}
	m.edits = append(m.edits, lineEdit{first: p.key.Line, last: p.last, text: text})
	return true
}

// value changes a value up to the line last. It returns false if the value must be replaced as
// a whole.
func (m *merger) value(node *yaml.Node, old, want any, last int) bool {
	switch want := want.(type) {
	case map[string]any:
		old, ok := old.(map[string]any)
		return ok && m.mapping(node, old, want, last)
	case []any:
		old, ok := old.([]any)
		return ok && m.sequence(node, old, want, last)
	}
	return m.scalar(node, want, last)
}

// sequence changes items of a sequence in block style that has as many items as are desired.
func (m *merger) sequence(node *yaml.Node, old, want []any, last int) bool {
	if !isBlock(node, yaml.SequenceNode) || len(old) != len(want) || len(node.Content) != len(old) {
		return false
	}
	before := len(m.edits)
	for i, item := range node.Content {
		if sameValue(old[i], want[i]) {
			continue
		}
		end := last
		if i+1 < len(node.Content) {
			end = node.Content[i+1].Line - 1
		}
		if !m.value(item, old[i], want[i], end) {
			m.edits = m.edits[:before]
			return false
		}
	}
	return true
}

// scalar changes a scalar that is on one line, and keeps the comment after it.
func (m *merger) scalar(node *yaml.Node, want any, last int) bool {
	const block = yaml.LiteralStyle | yaml.FoldedStyle
	if node.Kind != yaml.ScalarNode || node.Style&block != 0 || node.Anchor != "" || node.Line != last {
		return false
	}
	text, err := toYAML(want)
	rendered := strings.TrimSuffix(string(text), "\n")
	if err != nil || strings.Contains(rendered, "\n") {
		return false
	}
	line := m.lines[node.Line-1]
	prefix := column(line, node.Column-1)
	rest := ""
	if node.LineComment != "" {
		i := strings.LastIndex(line, node.LineComment)
		if i < len(prefix) {
			return false
		}
		rest = " " + strings.TrimSuffix(line[i:], "\n")
	}
	m.edits = append(m.edits, lineEdit{first: node.Line, last: node.Line, text: prefix + rendered + rest + "\n"})
	return true
}

// contentEnd returns the last line of a value that begins at first: the blank lines before last,
// and the comments there that are not indented more than the key, belong to what follows.
func (m *merger) contentEnd(first, last, indent int) int {
	for ; last > first; last-- {
		line := m.lines[last-1]
		text := strings.TrimLeft(line, " ")
		if strings.TrimSpace(text) != "" && (text[0] != '#' || len(line)-len(text) > indent) {
			break
		}
	}
	return last
}

// column returns the first n characters of a line.
func column(line string, n int) string {
	for i := range line {
		if n == 0 {
			return line[:i]
		}
		n--
	}
	return line
}

func isBlock(node *yaml.Node, kind yaml.Kind) bool {
	return node.Kind == kind && node.Style&yaml.FlowStyle == 0 && node.Anchor == ""
}

// render returns a key with its value as indented lines.
func render(key string, value any, indent int) string {
	text, err := toYAML(map[string]any{key: value})
	if err != nil {
		return "" // the comparison of the result fails
	}
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		if strings.TrimSpace(line) != "" {
			b.WriteString(strings.Repeat(" ", indent))
		}
		b.WriteString(line)
	}
	return b.String()
}

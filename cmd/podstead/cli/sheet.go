package cli

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// sheet is what describe prints: keys with values, in steps of indentation.
type sheet struct{ strings.Builder }

// field prints "key:   value" with values in one column. Further lines of a
// value stand below its first.
func (s *sheet) field(indent, width int, key, value string) {
	lines := strings.Split(strings.TrimRight(value, "\n"), "\n")
	pad := strings.Repeat(" ", max(1, width-utf8.RuneCountInString(key)-1))
	s.line(indent, key+":"+pad+lines[0])
	for _, l := range lines[1:] {
		s.line(indent+max(width, utf8.RuneCountInString(key)+2), l)
	}
}

// head prints "key:" for what follows with more indentation.
func (s *sheet) head(indent int, key string) { s.line(indent, key+":") }

// line prints a line.
func (s *sheet) line(indent int, text string) {
	fmt.Fprintf(s, "%s%s\n", strings.Repeat(" ", indent), strings.TrimRight(visible(text), " "))
}

// visible shows control characters as ^X: what a container or a manifest says
// must not steer the terminal.
func visible(text string) string {
	if strings.IndexFunc(text, steers) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if steers(r) {
			b.WriteByte('^')
			r = (r & 0x1f) + '@'
		}
		b.WriteRune(r)
	}
	return b.String()
}

func steers(r rune) bool { return unicode.IsControl(r) && r != '\t' && r != '\n' }

// rows prints a table; with no rows it is "key:  <none>".
func (s *sheet) rows(key string, t table) {
	if len(t.rows) == 0 {
		s.line(0, key+":  <none>")
		return
	}
	s.head(0, key)
	for _, l := range strings.Split(strings.TrimRight(t.text(screen{}), "\n"), "\n") {
		s.line(2, l)
	}
}

package terminal

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// sheet is what describe prints: keys with values, in steps of indentation.
type Report struct{ strings.Builder }

// field prints "key:   value" with values in one column. Further lines of a
// value stand below its first.
func (s *Report) Field(indent, width int, key, value string) {
	lines := strings.Split(strings.TrimRight(value, "\n"), "\n")
	pad := strings.Repeat(" ", max(1, width-utf8.RuneCountInString(key)-1))
	s.Line(indent, key+":"+pad+lines[0])
	for _, l := range lines[1:] {
		s.Line(indent+max(width, utf8.RuneCountInString(key)+2), l)
	}
}

// head prints "key:" for what follows with more indentation.
func (s *Report) Heading(indent int, key string) { s.Line(indent, key+":") }

// line prints a line.
func (s *Report) Line(indent int, text string) {
	fmt.Fprintf(s, "%s%s\n", strings.Repeat(" ", indent), strings.TrimRight(Visible(text), " "))
}

// rows prints a table; with no rows it is "key:  <none>".
func (s *Report) Table(key string, t Table) {
	if len(t.Rows) == 0 {
		s.Line(0, key+":  <none>")
		return
	}
	s.Heading(0, key)
	for _, l := range strings.Split(strings.TrimRight(t.Text(Terminal{}), "\n"), "\n") {
		s.Line(2, l)
	}
}

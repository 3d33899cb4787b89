package cli

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// sheet is what describe prints: keys with values, in steps of indentation.
type sheet struct{ strings.Builder }

// field prints "key:   value" with values in one column. Further lines of a
// value stand below its first.
func (s *sheet) field(indent, width int, key, value string) {
	lines := strings.Split(strings.TrimRight(value, "\n"), "\n")
	pad := strings.Repeat(" ", max(1, width-utf8.RuneCountInString(key)-1))
	fmt.Fprintf(s, "%s%s:%s%s\n", strings.Repeat(" ", indent), key, pad, lines[0])
	for _, l := range lines[1:] {
		fmt.Fprintf(s, "%s%s\n", strings.Repeat(" ", indent+max(width, len(key)+2)), l)
	}
}

// head prints "key:" for what follows with more indentation.
func (s *sheet) head(indent int, key string) {
	fmt.Fprintf(s, "%s%s:\n", strings.Repeat(" ", indent), key)
}

// line prints a line.
func (s *sheet) line(indent int, text string) {
	fmt.Fprintf(s, "%s%s\n", strings.Repeat(" ", indent), text)
}

// rows prints a table; with no rows it is "key:  <none>".
func (s *sheet) rows(key string, t table) {
	if len(t.rows) == 0 {
		s.line(0, key+":  <none>")
		return
	}
	s.head(0, key)
	var b strings.Builder
	_ = t.print(&b) // a Builder takes all
	for _, l := range strings.Split(strings.TrimRight(b.String(), "\n"), "\n") {
		s.line(2, strings.TrimRight(l, " "))
	}
}

package terminal

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Report is indented text of keys with values, as describe prints it.
type Report struct{ strings.Builder }

// Field adds "key:   value" with the values in one column. Further lines of a value are
// aligned below its first line.
func (r *Report) Field(indent, width int, key, value string) {
	lines := strings.Split(strings.TrimRight(value, "\n"), "\n")
	pad := strings.Repeat(" ", max(1, width-utf8.RuneCountInString(key)-1))
	r.Line(indent, key+":"+pad+lines[0])
	for _, l := range lines[1:] {
		r.Line(indent+max(width, utf8.RuneCountInString(key)+2), l)
	}
}

// Heading adds "key:", to be followed by lines with more indentation.
func (r *Report) Heading(indent int, key string) { r.Line(indent, key+":") }

// Line adds a line.
func (r *Report) Line(indent int, text string) {
	fmt.Fprintf(r, "%s%s\n", strings.Repeat(" ", indent), strings.TrimRight(Visible(text), " "))
}

// Table adds a table; without rows it adds "key:  <none>".
func (r *Report) Table(key string, t Table) {
	if len(t.Rows) == 0 {
		r.Line(0, key+":  <none>")
		return
	}
	r.Heading(0, key)
	for _, l := range strings.Split(strings.TrimRight(t.Text(Terminal{}), "\n"), "\n") {
		r.Line(2, l)
	}
}

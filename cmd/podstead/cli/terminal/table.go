package terminal

import (
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// table is rows of cells below a head; columns are as wide as their widest
// cell, on a terminal as wide as fits.
type Table struct {
	Header []string
	Rows   [][]string
	// bare leaves the head out.
	NoHeader bool
}

// gap is the space between columns, as kubectl has it. A table that does not
// fit its terminal has less.
const columnGap = 3

const (
	// narrowest is what a column is shortened to at most.
	minColumnWidth = 8
	// prose is the width from which on the last column is broken into lines
	// beside the others; with less room it stands below them.
	WrapWidth = 24
	// below is the indentation there.
	belowIndent = 4
)

// names are columns that are never shortened: one types next what is in them.
var neverShortened = []string{"NAMESPACE", "NAME", "POD", "CLAIM", "CONTAINER", "FIELD", "OBJECT"}

// whole are columns that are shortened last: cut, they say little.
var unshortened = append([]string{"READY", "STATUS", "TYPE", "STATE", "RESTARTS", "AGE", "IP"}, neverShortened...)

// telling are columns that have a hue.
var colored = []string{"STATUS", "TYPE", "STATE"}

// print writes the table.
func (t Table) Print(w io.Writer) error {
	_, err := io.WriteString(w, t.Text(Detect(w)))
	return err
}

func (t Table) Text(s Terminal) string {
	l := &Layout{Terminal: s}
	return l.Text(t)
}

// layout keeps the widths of columns from one part of a table to the next.
type Layout struct {
	Terminal Terminal
	widths   []int
}

func (l *Layout) Text(t Table) string {
	all := make([][]string, 0, len(t.Rows)+1)
	if !t.NoHeader {
		all = append(all, t.Header)
	}
	for _, row := range t.Rows {
		clean := make([]string, len(row))
		for i, cell := range row {
			clean[i] = Visible(cell)
		}
		all = append(all, clean)
	}
	widths := make([]int, len(t.Header))
	copy(widths, l.widths)
	for _, row := range all {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	l.widths = slices.Clone(widths)
	r := tableWriter{terminal: l.Terminal, header: t.Header, widths: widths, gap: columnGap}
	r.fit()
	for n, row := range all {
		r.write(row, n == 0 && !t.NoHeader)
	}
	return r.String()
}

// rows writes the lines of a table.
type tableWriter struct {
	strings.Builder
	terminal Terminal
	header   []string
	widths   []int
	gap      int
	// apart says that the last column stands below the others.
	lastBelow bool
}

// fit makes the table as narrow as its screen: with less between the columns,
// then with the last column in several lines, then with the widest columns
// shortened, then with the last column below the others.
func (r *tableWriter) fit() {
	last := len(r.widths) - 1
	if r.terminal.Width <= 0 || last < 0 {
		return
	}
	for r.excess() > 0 && r.gap > 1 {
		r.gap--
	}
	if over := r.excess(); over > 0 && !slices.Contains(unshortened, r.header[last]) {
		r.widths[last] = max(r.widths[last]-over, min(r.widths[last], WrapWidth))
	}
	r.shorten(last, unshortened)
	if r.excess() > 0 && last > 0 && !slices.Contains(unshortened, r.header[last]) {
		r.lastBelow = true
		r.widths, r.header = r.widths[:last], r.header[:last]
	}
	r.shorten(len(r.widths), unshortened)
	r.shorten(len(r.widths), neverShortened)
}

// over is by how much the table is too wide.
func (r *tableWriter) excess() int {
	n := r.gap*(len(r.widths)-1) - r.terminal.Width
	for _, w := range r.widths {
		n += w
	}
	return n
}

// shorten takes from the widest of the first n columns but those that are kept.
func (r *tableWriter) shorten(n int, kept []string) {
	for r.excess() > 0 {
		widest := -1
		for i := range n {
			if r.widths[i] > max(minColumnWidth, utf8.RuneCountInString(r.header[i])) && !slices.Contains(kept, r.header[i]) && (widest < 0 || r.widths[i] > r.widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return
		}
		r.widths[widest]--
	}
}

func (r *tableWriter) write(row []string, isHead bool) {
	extra := ""
	if r.lastBelow {
		extra, row = row[len(row)-1], row[:len(row)-1]
	}
	indent := 0
	for i, cell := range row {
		if i == len(row)-1 {
			r.writeLast(cell, indent, r.widths[i], func(part string) string { return r.paint(i, part, cell, isHead) })
			break
		}
		short := truncate(cell, r.widths[i])
		r.WriteString(r.paint(i, short, cell, isHead))
		r.WriteString(strings.Repeat(" ", r.widths[i]-utf8.RuneCountInString(short)+r.gap))
		indent += r.widths[i] + r.gap
	}
	r.WriteByte('\n')
	if extra != "" && extra != "<none>" && !isHead {
		for _, line := range Wrap(extra, max(WrapWidth, r.terminal.Width-belowIndent)) {
			r.WriteString(strings.Repeat(" ", belowIndent) + line + "\n")
		}
	}
}

// end writes the last cell, in several lines if it has to be.
func (r *tableWriter) writeLast(cell string, indent, width int, paint func(string) string) {
	if r.terminal.Width <= 0 || utf8.RuneCountInString(cell) <= width {
		r.WriteString(paint(cell))
		return
	}
	if width < WrapWidth {
		r.WriteString(paint(truncate(cell, width)))
		return
	}
	for i, line := range Wrap(cell, width) {
		if i > 0 {
			r.WriteString("\n" + strings.Repeat(" ", indent))
		}
		r.WriteString(paint(line))
	}
}

func (r *tableWriter) paint(column int, text, cell string, isHead bool) string {
	if isHead || !slices.Contains(colored, r.header[column]) {
		return text
	}
	return r.terminal.Paint(text, StateColor(cell))
}

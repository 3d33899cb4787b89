package terminal

import (
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// Table is a header with rows of cells. Each column is as wide as its widest cell, or on a
// terminal as wide as fits.
type Table struct {
	Header []string
	Rows   [][]string
	// NoHeader omits the header.
	NoHeader bool
}

// columnGap is the number of spaces between columns, as in kubectl. A table that does not
// fit the terminal has fewer.
const columnGap = 3

const (
	// minColumnWidth is the width below which no column is shortened.
	minColumnWidth = 8
	// WrapWidth is the minimum width at which the last column is wrapped in place;
	// with less space it is printed below the other columns.
	WrapWidth = 24
	// belowIndent is the indentation of a last column below the others.
	belowIndent = 4
)

// neverShortened are columns whose values users copy into the next command. They are only
// shortened if nothing else helps.
var neverShortened = []string{"NAMESPACE", "NAME", "POD", "CLAIM", "CONTAINER", "FIELD", "OBJECT"}

// unshortened are columns that are shortened last, since a shortened value reports little.
var unshortened = append([]string{"READY", "STATUS", "TYPE", "STATE", "RESTARTS", "AGE", "IP"}, neverShortened...)

// colored are the columns with colors.
var colored = []string{"STATUS", "TYPE", "STATE"}

// Print writes the table.
func (t Table) Print(w io.Writer) error {
	_, err := io.WriteString(w, t.Text(Detect(w)))
	return err
}

// Text returns the table as it is printed on a terminal.
func (t Table) Text(terminal Terminal) string {
	l := &Layout{Terminal: terminal}
	return l.Text(t)
}

// Layout keeps the column widths across the parts of a table that grows, such as in a
// watch.
type Layout struct {
	Terminal Terminal
	widths   []int
}

// Text returns the next part of the table.
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

// tableWriter writes the lines of a table.
type tableWriter struct {
	strings.Builder
	terminal Terminal
	header   []string
	widths   []int
	gap      int
	// lastBelow reports that the last column is printed below the others.
	lastBelow bool
}

// fit makes the table fit the terminal: it first reduces the gaps, then wraps the last
// column, then shortens the widest columns, then moves the last column below the others.
func (r *tableWriter) fit() {
	last := len(r.widths) - 1
	if r.terminal.Width <= 0 || last < 0 {
		return
	}
	for r.excess() > 0 && r.gap > 1 {
		r.gap--
	}
	if excess := r.excess(); excess > 0 && !slices.Contains(unshortened, r.header[last]) {
		r.widths[last] = max(r.widths[last]-excess, min(r.widths[last], WrapWidth))
	}
	r.shorten(last, unshortened)
	if r.excess() > 0 && last > 0 && !slices.Contains(unshortened, r.header[last]) {
		r.lastBelow = true
		r.widths, r.header = r.widths[:last], r.header[:last]
	}
	r.shorten(len(r.widths), unshortened)
	r.shorten(len(r.widths), neverShortened)
}

// excess returns by how many cells the table is too wide.
func (r *tableWriter) excess() int {
	n := r.gap*(len(r.widths)-1) - r.terminal.Width
	for _, w := range r.widths {
		n += w
	}
	return n
}

// shorten narrows the widest of the first n columns, except those that are kept.
func (r *tableWriter) shorten(n int, kept []string) {
	for r.excess() > 0 {
		widest := -1
		for i := range n {
			if r.widths[i] > max(minColumnWidth, utf8.RuneCountInString(r.header[i])) && !slices.Contains(kept, r.header[i]) &&
				(widest < 0 || r.widths[i] > r.widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return
		}
		r.widths[widest]--
	}
}

func (r *tableWriter) write(row []string, isHeader bool) {
	extra := ""
	if r.lastBelow {
		extra, row = row[len(row)-1], row[:len(row)-1]
	}
	indent := 0
	for i, cell := range row {
		if i == len(row)-1 {
			r.writeLast(cell, indent, r.widths[i], func(part string) string { return r.paint(i, part, cell, isHeader) })
			break
		}
		short := truncate(cell, r.widths[i])
		r.WriteString(r.paint(i, short, cell, isHeader))
		r.WriteString(strings.Repeat(" ", r.widths[i]-utf8.RuneCountInString(short)+r.gap))
		indent += r.widths[i] + r.gap
	}
	r.WriteByte('\n')
	if extra != "" && extra != "<none>" && !isHeader {
		for _, line := range Wrap(extra, max(WrapWidth, r.terminal.Width-belowIndent)) {
			r.WriteString(strings.Repeat(" ", belowIndent) + line + "\n")
		}
	}
}

// writeLast writes the last cell, wrapped if necessary.
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

func (r *tableWriter) paint(column int, text, cell string, isHeader bool) string {
	if isHeader || !slices.Contains(colored, r.header[column]) {
		return text
	}
	return r.terminal.Paint(text, StateColor(cell))
}

package cli

import (
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// table is rows of cells below a head; columns are as wide as their widest
// cell, on a terminal as wide as fits.
type table struct {
	head []string
	rows [][]string
	// bare leaves the head out.
	bare bool
}

// gap is the space between columns, as kubectl has it. A table that does not
// fit its terminal has less.
const gap = 3

const (
	// narrowest is what a column is shortened to at most.
	narrowest = 8
	// prose is the width from which on the last column is broken into lines
	// beside the others; with less room it stands below them.
	prose = 24
	// below is the indentation there.
	below = 4
)

// names are columns that are never shortened: one types next what is in them.
var names = []string{"NAMESPACE", "NAME", "POD", "CLAIM", "CONTAINER", "FIELD", "OBJECT"}

// whole are columns that are shortened last: cut, they say little.
var whole = append([]string{"READY", "STATUS", "TYPE", "STATE", "RESTARTS", "AGE", "IP"}, names...)

// telling are columns that have a hue.
var telling = []string{"STATUS", "TYPE", "STATE"}

// print writes the table.
func (t table) print(w io.Writer) error {
	_, err := io.WriteString(w, t.text(screenOf(w)))
	return err
}

func (t table) text(s screen) string {
	l := &layout{screen: s}
	return l.text(t)
}

// layout keeps the widths of columns from one part of a table to the next.
type layout struct {
	screen screen
	widths []int
}

func (l *layout) text(t table) string {
	all := make([][]string, 0, len(t.rows)+1)
	if !t.bare {
		all = append(all, t.head)
	}
	for _, row := range t.rows {
		clean := make([]string, len(row))
		for i, cell := range row {
			clean[i] = visible(cell)
		}
		all = append(all, clean)
	}
	widths := make([]int, len(t.head))
	copy(widths, l.widths)
	for _, row := range all {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	l.widths = slices.Clone(widths)
	r := rows{screen: l.screen, head: t.head, widths: widths, gap: gap}
	r.fit()
	for n, row := range all {
		r.write(row, n == 0 && !t.bare)
	}
	return r.String()
}

// rows writes the lines of a table.
type rows struct {
	strings.Builder
	screen screen
	head   []string
	widths []int
	gap    int
	// apart says that the last column stands below the others.
	apart bool
}

// fit makes the table as narrow as its screen: with less between the columns,
// then with the last column in several lines, then with the widest columns
// shortened, then with the last column below the others.
func (r *rows) fit() {
	last := len(r.widths) - 1
	if r.screen.width <= 0 || last < 0 {
		return
	}
	for r.over() > 0 && r.gap > 1 {
		r.gap--
	}
	if over := r.over(); over > 0 && !slices.Contains(whole, r.head[last]) {
		r.widths[last] = max(r.widths[last]-over, min(r.widths[last], prose))
	}
	r.shorten(last, whole)
	if r.over() > 0 && last > 0 && !slices.Contains(whole, r.head[last]) {
		r.apart = true
		r.widths, r.head = r.widths[:last], r.head[:last]
	}
	r.shorten(len(r.widths), whole)
	r.shorten(len(r.widths), names)
}

// over is by how much the table is too wide.
func (r *rows) over() int {
	n := r.gap*(len(r.widths)-1) - r.screen.width
	for _, w := range r.widths {
		n += w
	}
	return n
}

// shorten takes from the widest of the first n columns but those that are kept.
func (r *rows) shorten(n int, kept []string) {
	for r.over() > 0 {
		widest := -1
		for i := range n {
			if r.widths[i] > max(narrowest, utf8.RuneCountInString(r.head[i])) && !slices.Contains(kept, r.head[i]) && (widest < 0 || r.widths[i] > r.widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return
		}
		r.widths[widest]--
	}
}

func (r *rows) write(row []string, isHead bool) {
	extra := ""
	if r.apart {
		extra, row = row[len(row)-1], row[:len(row)-1]
	}
	indent := 0
	for i, cell := range row {
		if i == len(row)-1 {
			r.end(cell, indent, r.widths[i], func(part string) string { return r.paint(i, part, cell, isHead) })
			break
		}
		short := cut(cell, r.widths[i])
		r.WriteString(r.paint(i, short, cell, isHead))
		r.WriteString(strings.Repeat(" ", r.widths[i]-utf8.RuneCountInString(short)+r.gap))
		indent += r.widths[i] + r.gap
	}
	r.WriteByte('\n')
	if extra != "" && extra != "<none>" && !isHead {
		for _, line := range wrap(extra, max(prose, r.screen.width-below)) {
			r.WriteString(strings.Repeat(" ", below) + line + "\n")
		}
	}
}

// end writes the last cell, in several lines if it has to be.
func (r *rows) end(cell string, indent, width int, paint func(string) string) {
	if r.screen.width <= 0 || utf8.RuneCountInString(cell) <= width {
		r.WriteString(paint(cell))
		return
	}
	if width < prose {
		r.WriteString(paint(cut(cell, width)))
		return
	}
	for i, line := range wrap(cell, width) {
		if i > 0 {
			r.WriteString("\n" + strings.Repeat(" ", indent))
		}
		r.WriteString(paint(line))
	}
}

func (r *rows) paint(column int, text, cell string, isHead bool) string {
	if isHead || !slices.Contains(telling, r.head[column]) {
		return text
	}
	return r.screen.paint(text, hueOf(cell))
}

// cut shortens a text to a width; an ellipsis says so.
func cut(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	runes := []rune(text)
	return string(runes[:max(0, width-1)]) + "…"
}

// wrap breaks a text between words, and a word that is wider than a line.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= width {
			line += " " + word
			continue
		}
		if line != "" {
			lines = append(lines, line)
		}
		for runes := []rune(word); len(runes) > width; runes = []rune(word) {
			lines, word = append(lines, string(runes[:width])), string(runes[width:])
		}
		line = word
	}
	return append(lines, line)
}

package cli

import (
	"io"
	"strings"
	"unicode/utf8"
)

// table is rows of cells below a head; columns are as wide as their widest cell.
type table struct {
	head []string
	rows [][]string
}

// print writes the table with three spaces between columns, as kubectl does,
// so that scripts which cut columns keep working.
func (t table) print(w io.Writer) error {
	widths := make([]int, len(t.head))
	all := append([][]string{t.head}, t.rows...)
	for _, row := range all {
		for i, cell := range row {
			row[i] = visible(cell)
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
	}
	var b strings.Builder
	for _, row := range all {
		for i, cell := range row {
			b.WriteString(cell)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+3))
			}
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}

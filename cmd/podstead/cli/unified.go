package cli

import (
	"fmt"
	"strings"
)

// around is how many lines stand around a difference.
const around = 3

// edit is a line that stays (' '), goes ('-') or comes ('+').
type edit struct {
	op   byte
	line string
}

// unified is the difference of two texts in the unified form, empty if there
// is none.
func unified(from, to, fromName, toName string) string {
	if from == to {
		return ""
	}
	edits := compare(lines(from), lines(to))
	var b strings.Builder
	fmt.Fprintf(&b, "--- %s\n+++ %s\n", fromName, toName)
	for start := 0; start < len(edits); {
		if edits[start].op == ' ' {
			start++
			continue
		}
		first, last := max(0, start-around), start
		for i := start; i < len(edits) && i <= last+2*around; i++ {
			if edits[i].op != ' ' {
				last = i
			}
		}
		end := min(len(edits), last+around+1)
		hunk(&b, edits, first, end)
		start = end
	}
	return b.String()
}

func hunk(b *strings.Builder, edits []edit, first, end int) {
	fromLine, toLine := 1, 1
	for _, e := range edits[:first] {
		if e.op != '+' {
			fromLine++
		}
		if e.op != '-' {
			toLine++
		}
	}
	from, to := 0, 0
	for _, e := range edits[first:end] {
		if e.op != '+' {
			from++
		}
		if e.op != '-' {
			to++
		}
	}
	if from == 0 {
		fromLine--
	}
	if to == 0 {
		toLine--
	}
	fmt.Fprintf(b, "@@ -%d,%d +%d,%d @@\n", fromLine, from, toLine, to)
	for _, e := range edits[first:end] {
		b.WriteByte(e.op)
		b.WriteString(e.line + "\n")
	}
}

func lines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// compare finds the longest common subsequence between what the two have in
// common at their ends. Manifests are short: the table of n × m is small.
func compare(from, to []string) []edit {
	var edits, tail []edit
	for len(from) > 0 && len(to) > 0 && from[0] == to[0] {
		edits = append(edits, edit{' ', from[0]})
		from, to = from[1:], to[1:]
	}
	for len(from) > 0 && len(to) > 0 && from[len(from)-1] == to[len(to)-1] {
		tail = append(tail, edit{' ', from[len(from)-1]})
		from, to = from[:len(from)-1], to[:len(to)-1]
	}
	// common[i][j] is the length of the longest one of from[i:] and to[j:].
	common := make([][]int32, len(from)+1)
	for i := range common {
		common[i] = make([]int32, len(to)+1)
	}
	for i := len(from) - 1; i >= 0; i-- {
		for j := len(to) - 1; j >= 0; j-- {
			if from[i] == to[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	i, j := 0, 0
	for i < len(from) || j < len(to) {
		switch {
		case i < len(from) && j < len(to) && from[i] == to[j]:
			edits = append(edits, edit{' ', from[i]})
			i, j = i+1, j+1
		case i < len(from) && (j == len(to) || common[i+1][j] >= common[i][j+1]):
			edits = append(edits, edit{'-', from[i]})
			i++
		default:
			edits = append(edits, edit{'+', to[j]})
			j++
		}
	}
	for n := len(tail) - 1; n >= 0; n-- {
		edits = append(edits, tail[n])
	}
	return edits
}

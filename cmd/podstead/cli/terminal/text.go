package terminal

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// visible shows control characters as ^X: what a container or a manifest says
// must not steer the terminal.
func Visible(text string) string {
	if strings.IndexFunc(text, isControl) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if isControl(r) {
			b.WriteByte('^')
			r = (r & 0x1f) + '@'
		}
		b.WriteRune(r)
	}
	return b.String()
}

func isControl(r rune) bool { return unicode.IsControl(r) && r != '\t' && r != '\n' }

func OneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

func OrNone(s string) string {
	if s == "" {
		return "<none>"
	}
	return s
}

// title is a field's name as a heading.
func Title(name string) string {
	if name == "" {
		return name
	}
	return strings.ToUpper(name[:1]) + name[1:]
}

func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func Lines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// cut shortens a text to a width; an ellipsis says so.
func truncate(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	runes := []rune(text)
	return string(runes[:max(0, width-1)]) + "…"
}

// wrap breaks a text between words, and a word that is wider than a line.
func Wrap(text string, width int) []string {
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

package terminal

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Visible returns the text with control characters as ^X, and with the bytes and characters
// that change how a terminal reads or orders the rest as \x9b or \u202e: output of a
// container or a manifest must not control the terminal.
func Visible(text string) string {
	if utf8.ValidString(text) && strings.IndexFunc(text, isControl) < 0 {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && size == 1:
			// Terminals that do not expect UTF-8 read 0x9b as an escape sequence.
			fmt.Fprintf(&b, "\\x%02x", text[0])
		case isDirection(r):
			fmt.Fprintf(&b, "\\u%04x", r)
		case isControl(r):
			b.WriteByte('^')
			b.WriteRune((r & 0x1f) + '@')
		default:
			b.WriteRune(r)
		}
		text = text[size:]
	}
	return b.String()
}

func isControl(r rune) bool {
	return unicode.IsControl(r) && r != '\t' && r != '\n' || isDirection(r)
}

// isDirection reports whether a character changes the direction of text, so that it reads
// as another text.
func isDirection(r rune) bool { return r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 }

// OneLine returns the text on one line, with single spaces.
func OneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// OrNone returns the text, or <none> if it is empty.
func OrNone(s string) string {
	if s == "" {
		return "<none>"
	}
	return s
}

// Title returns a field name with an upper-case first letter.
func Title(name string) string {
	if name == "" {
		return name
	}
	return strings.ToUpper(name[:1]) + name[1:]
}

// Count returns the number with the noun in singular or plural.
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Lines splits a text into lines without their line ends; an empty text has none.
func Lines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// truncate shortens a text to a width and ends it with an ellipsis.
func truncate(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	runes := []rune(text)
	return string(runes[:max(0, width-1)]) + "…"
}

// Wrap breaks a text into lines between words; a word longer than a line is split.
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

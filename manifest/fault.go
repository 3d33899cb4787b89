package manifest

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Fault is one error or warning about a manifest, in words that its author can
// act on.
type Fault struct {
	// Unit is the file path or URL as it was configured; "-" is standard input.
	Unit string `json:"unit"`
	// Line counts from 1; 0 means that the fault is not on a particular line.
	Line int `json:"line,omitempty"`
	// Object is the "Kind namespace/name" of the document, empty if unknown.
	Object string `json:"object,omitempty"`
	// Path is the field path, such as spec.containers[0].image.
	Path string `json:"path,omitempty"`
	// Problem reports what is wrong and quotes the value.
	Problem string `json:"problem"`
	// Remedy reports what would be right; empty if Problem already does.
	Remedy string `json:"remedy,omitempty"`
	// Warning marks a fault that does not reject the unit.
	Warning bool `json:"warning,omitempty"`
}

// Error returns the fault on one line: unit:line: path: problem; remedy. Control
// characters, which file names and keys may contain, are escaped.
func (f Fault) Error() string {
	var b strings.Builder
	b.WriteString(f.Unit)
	if f.Line > 0 {
		fmt.Fprintf(&b, ":%d", f.Line)
	}
	b.WriteString(": ")
	if f.Object != "" {
		b.WriteString(f.Object + ": ")
	}
	if f.Path != "" {
		b.WriteString(f.Path + ": ")
	}
	b.WriteString(f.Problem)
	if f.Remedy != "" {
		b.WriteString("; " + f.Remedy)
	}
	return escapeControl(b.String())
}

// escapeControl returns a text in which control characters are escaped as in Go.
func escapeControl(text string) string {
	isControl := func(r rune) bool {
		return unicode.Is(unicode.Other, r) || r == '\u2028' || r == '\u2029' || r == utf8.RuneError
	}
	if !strings.ContainsFunc(text, isControl) {
		return text
	}
	var b strings.Builder
	for i, r := range text {
		size := utf8.RuneLen(r)
		if r == utf8.RuneError {
			_, size = utf8.DecodeRuneInString(text[i:])
		}
		if part := text[i : i+size]; isControl(r) {
			b.WriteString(strings.Trim(strconv.QuoteToASCII(part), `"`))
		} else {
			b.WriteString(part)
		}
	}
	return b.String()
}

// Faults are all faults of a unit, in the order of the file.
type Faults []Fault

// Error returns one line for each fault.
func (fs Faults) Error() string {
	lines := make([]string, len(fs))
	for i, f := range fs {
		lines[i] = f.Error()
	}
	return strings.Join(lines, "\n")
}

// Fatal reports whether one of the faults rejects the unit.
func (fs Faults) Fatal() bool {
	for _, f := range fs {
		if !f.Warning {
			return true
		}
	}
	return false
}

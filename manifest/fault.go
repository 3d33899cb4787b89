package manifest

import (
	"fmt"
	"strings"
)

// Fault is one thing wrong with a manifest, in words its author can act on.
type Fault struct {
	// Unit is the file path or URL as it was configured; "-" is standard input.
	Unit string `json:"unit"`
	// Line counts from 1; 0 means that the fault has no line of its own.
	Line int `json:"line,omitempty"`
	// Object is "Kind namespace/name" of the document, empty if unknown.
	Object string `json:"object,omitempty"`
	// Path is the field path, such as spec.containers[0].image.
	Path string `json:"path,omitempty"`
	// Problem says what is wrong and quotes the value.
	Problem string `json:"problem"`
	// Remedy says what would be right; empty if Problem already does.
	Remedy string `json:"remedy,omitempty"`
	// Warning marks a fault that does not hold the unit back.
	Warning bool `json:"warning,omitempty"`
}

// Error is the fault on one line: unit:line: path: problem; remedy.
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
	return b.String()
}

// Faults are all the faults of one unit, in the order of the file.
type Faults []Fault

// Error joins the faults, one a line.
func (fs Faults) Error() string {
	lines := make([]string, len(fs))
	for i, f := range fs {
		lines[i] = f.Error()
	}
	return strings.Join(lines, "\n")
}

// Fatal reports whether one of the faults holds the unit back.
func (fs Faults) Fatal() bool {
	for _, f := range fs {
		if !f.Warning {
			return true
		}
	}
	return false
}

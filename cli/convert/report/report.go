package report

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/podstead/podstead/cli/convert/tree"
	"github.com/podstead/podstead/manifest"
)

// Severity reports what an entry means for the result.
type Severity uint8

// The severities.
const (
	// Error means that the input cannot be converted; there is no result.
	Error Severity = iota
	// Lost means that the result does not do what the input reports here.
	Lost
	// Note means that the result does the same in another way, which the user may want to know.
	Note
)

// maxEntries bounds how many entries are kept.
const maxEntries = 1000

// Field is a field of the input.
type Field struct {
	At   tree.Position
	Path string
}

// Child returns a field in this one.
func (f Field) Child(name string, at tree.Position) Field {
	if f.Path != "" {
		name = f.Path + "." + name
	}
	return Field{At: at, Path: name}
}

// Index returns an item of this field.
func (f Field) Index(i int, at tree.Position) Field {
	return Field{At: at, Path: fmt.Sprintf("%s[%d]", f.Path, i)}
}

// Entry is one line of the report.
type Entry struct {
	Field
	Severity Severity
	// Problem reports what is wrong, lost or different, Remedy what to do.
	Problem, Remedy string
}

// String returns FILE:LINE: FIELD: SEVERITY: PROBLEM; REMEDY on one line, with control
// characters escaped. An error has no severity in its line, as with validate.
func (e Entry) String() string {
	problem := e.Problem
	switch e.Severity {
	case Lost:
		problem = "lost: " + problem
	case Note:
		problem = "note: " + problem
	}
	return manifest.Fault{Unit: e.At.File, Line: e.At.Line, Path: e.Path, Problem: problem, Remedy: e.Remedy}.Error()
}

// Report collects entries. The zero value is empty.
type Report struct {
	entries []Entry
	counts  [Note + 1]int
}

// Error adds an error.
func (r *Report) Error(f Field, problem, remedy string) { r.add(Error, f, problem, remedy) }

// Lost adds what is lost.
func (r *Report) Lost(f Field, problem, remedy string) { r.add(Lost, f, problem, remedy) }

// Note adds a note.
func (r *Report) Note(f Field, problem, remedy string) { r.add(Note, f, problem, remedy) }

func (r *Report) add(s Severity, f Field, problem, remedy string) {
	e := Entry{Field: f, Severity: s, Problem: problem, Remedy: remedy}
	if slices.Contains(r.entries[max(0, len(r.entries)-50):], e) {
		return
	}
	r.counts[s]++
	if len(r.entries) < maxEntries || s == Error && r.counts[Error] < 100 {
		r.entries = append(r.entries, e)
	}
}

// Count returns how many entries of a severity there are, also of those that were not kept.
func (r *Report) Count(s Severity) int { return r.counts[s] }

// Entries returns the entries in the order of files, as they were first named, and lines.
func (r *Report) Entries() []Entry {
	order := map[string]int{}
	for _, e := range r.entries {
		if _, ok := order[e.At.File]; !ok {
			order[e.At.File] = len(order)
		}
	}
	sorted := slices.Clone(r.entries)
	slices.SortStableFunc(sorted, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(order[a.At.File], order[b.At.File]), cmp.Compare(a.At.Line, b.At.Line))
	})
	return sorted
}

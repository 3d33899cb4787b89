package config

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/pflag"
)

// table is the table of settings, of one Options.
type table struct {
	rows []*setting
	// byValue has the rows by the pointer to the value that the flag or field sets.
	byValue map[any]*setting
	// byPath has the rows by kind and path of their field.
	byPath map[string]map[string]*setting

	faults []*fault
	// files are those that were read, in order. unreadable is set if one could not be.
	files      []string
	unreadable bool
}

// group is a group of settings with the title of their flags in the help.
type group struct {
	title    string
	settings []setting
}

// GroupAnnotation is the annotation of each flag of run that is in the help with the title of its
// group. The flags of a group follow one another.
const GroupAnnotation = "group"

func newTable(groups []group) *table {
	t := &table{byValue: map[any]*setting{}, byPath: map[string]map[string]*setting{kubeletKind.Kind: {},
		podsteadKind.Kind: {}}}
	for _, g := range groups {
		for i := range g.settings {
			s := &g.settings[i]
			s.table, s.group = t, g.title
			t.rows = append(t.rows, s)
			t.byValue[s.value.target] = s
			switch {
			case s.field != "":
				t.byPath[kubeletKind.Kind][s.field] = s
			case s.own != "":
				t.byPath[podsteadKind.Kind][s.own] = s
			}
		}
	}
	return t
}

// at returns the row of a value by the pointer with which the row was declared.
func (t *table) at(value any) *setting {
	s := t.byValue[value]
	if s == nil {
		panic(fmt.Sprintf("no setting has the value %T", value))
	}
	return s
}

// sound reports whether none of the values with these pointers is broken.
func (t *table) sound(values ...any) bool {
	for _, v := range values {
		if t.at(v).broken {
			return false
		}
	}
	return true
}

// addFlags sets all defaults and declares the flags in the order of the rows.
func (t *table) addFlags(f *pflag.FlagSet) {
	f.SortFlags = false
	for _, s := range t.rows {
		s.value.declare(f, s.flag, s.help)
		if s.flag == "" {
			continue
		}
		s.declared = f.Lookup(s.flag)
		s.declared.Annotations = map[string][]string{GroupAnnotation: {s.group}}
		// The help shows no empty default, and none next to one that the text explains.
		if s.declared.DefValue == "[]" && s.declared.Value.Type() == "stringToString" || s.value.zero != "" {
			s.declared.DefValue = s.value.zero
		}
	}
}

// takeFlags records which settings the command line sets.
func (t *table) takeFlags() {
	for _, s := range t.rows {
		if s.declared != nil && s.declared.Changed {
			s.source = fromFlag
		}
	}
}

// check makes paths absolute and validates each value alone.
func (t *table) check() {
	for _, s := range t.rows {
		if s.broken {
			continue
		}
		before := len(t.faults)
		if p := s.value.path; p != nil && *p != "" {
			abs, err := filepath.Abs(*p)
			if err != nil {
				s.fail(": failed to make %q absolute: %w", *p, err)
			} else {
				*p = abs
			}
		}
		s.checkChoice()
		if s.check != nil {
			s.check(s)
		}
		s.broken = len(t.faults) > before
	}
}

// checkChoices validates the values that were read of which there are a few, as those of a document alone.
func (t *table) checkChoices() {
	for _, s := range t.rows {
		if !s.broken && s.isSet() {
			s.checkChoice()
		}
	}
}

// checkChoice records a fault of a value that is none of its choices.
func (s *setting) checkChoice() {
	if s.value.choices == nil {
		return
	}
	if v, ok := s.value.choose(); !ok {
		s.fail(s.value.wrong, v)
	}
}

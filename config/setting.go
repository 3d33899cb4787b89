package config

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/podstead/podstead/config/configfile"
)

// setting is one row of the table of settings. A row is declared in the file of its subject; the
// flags, the fields of both documents, positions of errors, /configz, the schema and the
// reference follow from the rows.
type setting struct {
	// flag is the flag of run; empty for none.
	flag string
	// field is the path of a field of a KubeletConfiguration, such as
	// authentication.x509.clientCAFile, and own that of a PodsteadConfiguration. A setting has
	// one of them, or without reports why it has none.
	field, own, without string
	// help is the help of the flag, which names the value in back quotes, and the meaning of the
	// field in the reference.
	help  string
	value value
	// check validates the value alone, and sets what follows from it alone; nil if each is valid.
	// It is not called for a value that could not be read.
	check func(s *setting)
	// shown is the value of the field in /configz, nil for none; without it, it is the value's.
	shown func(RuntimeDefaults) any
	// cluster is set if the setting has no effect on a node without a cluster: it is not in
	// /configz, and a notice names it if it is set, unless unasked reports that its value asks
	// for nothing.
	cluster bool
	unasked func() bool

	state
}

// state is what a table knows of its row.
type state struct {
	// group is the title of the setting's flags in the help.
	group    string
	table    *table
	declared *pflag.Flag
	// document is the merged document that sets the field; nil if none does.
	document *configfile.Document
	source   source
	// broken is set if the value could not be read, or is not valid.
	broken bool
}

// source is where a value comes from.
type source int

const (
	fromDefault source = iota
	fromFile
	fromFlag
)

// path returns the path of the field in its document.
func (s *setting) path() string {
	if s.field != "" {
		return s.field
	}
	return s.own
}

// String returns the name under which the setting is set, or could be: its flag, or the field if a
// file sets it or if it has no flag.
func (s *setting) String() string {
	if s.source == fromFile || s.flag == "" {
		return s.path()
	}
	return "--" + s.flag
}

// mention is a name of a setting in an error. The first in the text that comes from a file gives
// the error its position.
type mention interface {
	fmt.Stringer
	place() (s *setting, path string)
}

func (s *setting) place() (*setting, string) { return s, s.path() }

// both names a setting by its flag and its field, or by its field alone if a file sets it.
type both struct{ *setting }

func (b both) String() string {
	if b.source == fromFile {
		return b.path()
	}
	return fmt.Sprintf("--%s (%s)", b.flag, b.path())
}

// within names a part of a setting by the rest of its path, such as .name or [0].
type within struct {
	*setting
	rest string
}

func (w within) String() string            { return w.setting.String() + w.rest }
func (w within) place() (*setting, string) { return w.setting, w.path() + w.rest }

// fail records a fault of the value. The text follows the name.
func (s *setting) fail(format string, args ...any) {
	s.table.failAt(s, format, args...)
}

// isSet reports whether a flag or a file sets the setting.
func (s *setting) isSet() bool { return s.source != fromDefault }

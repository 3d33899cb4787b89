package quadlet

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/podstead/podstead/cli/convert/report"
	"github.com/podstead/podstead/cli/convert/tree"
)

const (
	// maxSize bounds a unit file, in bytes; maxEntries the keys in it.
	maxSize    = 1 << 20
	maxEntries = 10_000
)

// entry is one assignment.
type entry struct {
	section, key, value string
	line                int
}

// unitFile is a parsed unit.
type unitFile struct {
	// path is the file, base its name, such as web.container; name is that without the suffix.
	path, base, name, suffix string
	entries                  []entry
}

// parse parses a unit file. It reports lines that systemd would reject.
func parse(file File, r *report.Report) *unitFile {
	u := &unitFile{path: file.Name, base: filepath.Base(file.Name)}
	u.suffix = filepath.Ext(u.base)
	u.name = strings.TrimSuffix(u.base, u.suffix)
	if len(file.Data) > maxSize {
		r.Error(report.Field{At: tree.Position{File: file.Name}}, fmt.Sprintf("is %d bytes long", len(file.Data)),
			fmt.Sprintf("a unit must be at most %d bytes", maxSize))
		return u
	}
	fail := func(line int, problem, remedy string) {
		r.Error(report.Field{At: tree.Position{File: file.Name, Line: line}}, problem, remedy)
	}
	section, line := "", 0
	rows := strings.Split(strings.ReplaceAll(string(file.Data), "\r\n", "\n"), "\n")
	for i := 0; i < len(rows); i++ {
		line = i + 1
		row := strings.TrimSpace(rows[i])
		if row == "" || row[0] == '#' || row[0] == ';' {
			continue
		}
		for strings.HasSuffix(row, `\`) && i+1 < len(rows) {
			i++
			next := strings.TrimSpace(rows[i])
			if next != "" && (next[0] == '#' || next[0] == ';') {
				continue
			}
			row = row[:len(row)-1] + " " + next
		}
		row = strings.TrimSpace(strings.TrimSuffix(row, `\`))
		if strings.HasPrefix(row, "[") {
			if !strings.HasSuffix(row, "]") || len(row) < 3 {
				fail(line, fmt.Sprintf("%.40q is not a section", row), "must be [NAME]")
				return u
			}
			section = row[1 : len(row)-1]
			continue
		}
		key, value, ok := strings.Cut(row, "=")
		switch {
		case !ok:
			fail(line, fmt.Sprintf("%.40q is not an assignment", row),
				"must be KEY=VALUE; a line that goes on ends with a backslash")
			return u
		case section == "":
			fail(line, "a key is before the first section", "write a section such as [Container] before it")
			return u
		case len(u.entries) >= maxEntries:
			fail(line, fmt.Sprintf("has more than %d keys", maxEntries), "")
			return u
		}
		u.entries = append(u.entries, entry{section: section, key: strings.TrimSpace(key), value: strings.TrimSpace(value),
			line: line})
	}
	u.guessSuffix()
	return u
}

// guessSuffix gives a unit of standard input, or of another name, the suffix of its section.
func (u *unitFile) guessSuffix() {
	for _, kind := range kinds {
		if u.suffix == kind.suffix {
			return
		}
	}
	for _, e := range u.entries {
		for _, kind := range kinds {
			if e.section == kind.section {
				if u.suffix = kind.suffix; u.path == "-" {
					u.name = strings.ToLower(kind.section)
				}
				return
			}
		}
	}
}

// kinds are the kinds of units.
var kinds = []struct{ suffix, section string }{
	{".container", "Container"}, {".pod", "Pod"}, {".kube", "Kube"}, {".volume", "Volume"}, {".network", "Network"},
	{".build", "Build"}, {".image", "Image"},
}

// field returns the place of an entry for the report.
func (u *unitFile) field(e entry) report.Field {
	return report.Field{At: tree.Position{File: u.path, Line: e.line}, Path: e.section + "." + e.key}
}

// file returns the unit as a whole for the report.
func (u *unitFile) file() report.Field { return report.Field{At: tree.Position{File: u.path}} }

// all returns the assignments of a key; an empty value removes those before it.
func (u *unitFile) all(section, key string) []entry {
	var found []entry
	for _, e := range u.entries {
		switch {
		case e.section != section || e.key != key:
		case e.value == "":
			found = nil
		default:
			found = append(found, e)
		}
	}
	return found
}

// last returns the assignment of a key that counts.
func (u *unitFile) last(section, key string) (entry, bool) {
	found := u.all(section, key)
	if len(found) == 0 {
		return entry{}, false
	}
	return found[len(found)-1], true
}

// value returns the value of a key; empty without it.
func (u *unitFile) value(section, key string) string {
	e, _ := u.last(section, key)
	return e.value
}

// specifiers are those whose value is known without systemd, for the units of root.
var specifiers = map[byte]string{
	'%': "%", 'h': "/root", 't': "/run", 'S': "/var/lib", 'C': "/var/cache", 'L': "/var/log", 'E': "/etc", 'T': "/tmp",
	'V': "/var/tmp",
	'u': "root", 'U': "0", 'g': "root", 'G': "0",
}

// expand replaces the specifiers of systemd in a value. It reports those that are not known.
func (u *unitFile) expand(e entry, r *report.Report) string {
	if !strings.Contains(e.value, "%") {
		return e.value
	}
	var b strings.Builder
	for i := 0; i < len(e.value); i++ {
		if e.value[i] != '%' || i+1 == len(e.value) {
			b.WriteByte(e.value[i])
			continue
		}
		i++
		switch known, ok := specifiers[e.value[i]]; {
		case ok:
			b.WriteString(known)
		case e.value[i] == 'n':
			b.WriteString(u.name + ".service")
		case strings.IndexByte("NpP", e.value[i]) >= 0:
			b.WriteString(u.name)
		default:
			r.Error(u.field(e), fmt.Sprintf("the specifier %%%c is not known here", e.value[i]),
				"write its value; %% is a percent sign")
			return ""
		}
	}
	return b.String()
}

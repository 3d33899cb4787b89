package config

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// value is the typed value of a setting: where it is stored, its default, and its forms as a flag
// and as a field.
type value struct {
	// target is the pointer to where a flag or field stores it.
	target any
	// declare sets the default and, unless the name is empty, declares the flag.
	declare func(f *pflag.FlagSet, flag, help string)
	// read sets it to that of a field, and returns false if the field leaves the default. It
	// records what is wrong with the field.
	read func(n node) bool
	// get returns it as the field has it; nil for none.
	get func() any
	// path is set if it is a path, which becomes absolute.
	path *string
	// choices are all values but the empty one, which stands for the default; nil if there are
	// more than a few. wrong is the text about another one, with a verb for it.
	choices []string
	wrong   string
	// zero hides a default that the help of the flag explains: the text of the zero value.
	zero string
}

// valueOf returns a value of type T, with the method of pflag that declares such a flag.
func valueOf[T any](to *T, base T, declare func(*pflag.FlagSet, *T, string, T, string),
	read func(n node) (T, bool)) value {
	return value{
		target: to,
		declare: func(f *pflag.FlagSet, flag, help string) {
			if *to = base; flag != "" {
				declare(f, to, flag, base, help)
			}
		},
		read: func(n node) bool {
			v, ok := read(n)
			if ok {
				*to = v
			}
			return ok
		},
		get: func() any { return *to },
	}
}

// reading returns a value that reads its field in another way, and as one with another field in
// /configz.
func (v value) reading(read func(n node) bool) value { v.read = read; return v }
func (v value) as(get func() any) value              { v.get = get; return v }

// text is a string. An empty one in a KubeletConfiguration means the default, as at the kubelet.
func text(to *string, base string) value {
	return valueOf(to, base, (*pflag.FlagSet).StringVar, func(n node) (string, bool) {
		s, ok := n.text()
		return s, ok && (s != "" || n.kind != kubeletKind)
	}).as(func() any { return orNone(*to) })
}

// choice is a string of which there are a few. The text about another one has a verb for it.
func choice(to *string, base, wrong string, choices ...string) value {
	v := text(to, base)
	v.choices, v.wrong = choices, wrong
	return v
}

// choose sets the default for an empty choice, and returns false for an unknown one.
func (v value) choose() (string, bool) {
	to := v.target.(*string)
	if *to == "" {
		v.declare(nil, "", "")
	}
	return *to, *to == "" || slices.Contains(v.choices, *to)
}

// file is the path of a file or directory. One in a file is relative to the file's directory.
func file(to *string, base string) value {
	v := text(to, base)
	v.path = to
	return v.reading(func(n node) bool {
		s, ok := n.text()
		if !ok || s == "" && n.kind == kubeletKind {
			return false
		}
		*to = pathIn(n.dir(), s)
		return true
	})
}

// pathIn returns a path that is relative to a directory; empty stays empty.
func pathIn(dir, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

func boolean(to *bool, base bool) value {
	return valueOf(to, base, (*pflag.FlagSet).BoolVar, node.boolean)
}

// anyInteger is an integer.
func anyInteger(to *int, base int) value {
	return valueOf(to, base, (*pflag.FlagSet).IntVar, node.integer)
}

// integer is an integer, in a range if it comes from a file. The check of the row validates a flag.
func integer(to *int, base, low, high int) value {
	return valueOf(to, base, (*pflag.FlagSet).IntVar, func(n node) (int, bool) { return n.number(low, high) })
}

// integerOrDefault is an integer of which 0 in a file means the default, as at the kubelet.
func integerOrDefault(to *int, base, low int) value {
	return valueOf(to, base, (*pflag.FlagSet).IntVar, func(n node) (int, bool) {
		if n.value == 0.0 {
			return 0, false
		}
		return n.number(low, math.MaxInt32)
	})
}

// duration is a duration. Zero in a KubeletConfiguration means the default, as at the kubelet.
func duration(to *time.Duration, base time.Duration) value {
	v := durationOrZero(to, base)
	read := v.read
	return v.reading(func(n node) bool {
		before := *to
		if !read(n) {
			return false
		}
		if *to == 0 && n.kind == kubeletKind {
			*to = before
			return false
		}
		return true
	})
}

// durationOrZero is a duration of which zero has a meaning of its own.
func durationOrZero(to *time.Duration, base time.Duration) value {
	return valueOf(to, base, (*pflag.FlagSet).DurationVar, func(n node) (time.Duration, bool) {
		s, ok := n.value.(string)
		if !ok {
			n.fail("%v is not a valid duration, such as 20s or 1m30s", n.value)
			return 0, false
		}
		d, err := time.ParseDuration(s)
		switch {
		case err != nil:
			n.fail("%q is not a valid duration, such as 20s or 1m30s", s)
		case d < 0:
			n.fail("%q is negative", s)
		default:
			return d, true
		}
		return 0, false
	}).as(func() any { return to.String() })
}

// texts is a list of strings, which a flag separates by commas. An empty list in a file is the
// default, as at the kubelet.
func texts(to *[]string, base ...string) value {
	return valueOf(to, base, (*pflag.FlagSet).StringSliceVar, func(n node) ([]string, bool) {
		list, ok := n.texts()
		return list, ok && len(list) > 0
	})
}

// list is a list of strings, of which each has a flag.
func list(to *[]string) value {
	return valueOf(to, nil, (*pflag.FlagSet).StringArrayVar, node.texts)
}

// pairs is a map of strings.
func pairs(to *map[string]string, example string) value {
	return valueOf(to, nil, (*pflag.FlagSet).StringToStringVar, func(n node) (map[string]string, bool) {
		entries, ok := n.entries(example)
		m := map[string]string{}
		for _, entry := range entries {
			s, valid := entry.text()
			m[entry.name(n)], ok = s, ok && valid
		}
		return m, ok
	}).as(func() any {
		if len(*to) == 0 {
			return nil
		}
		return *to
	})
}

// readAmounts reads a map whose values are strings or numbers. Those for which ignored is true have
// no effect; nil ignores none.
func readAmounts(n node, wrongMap, wrongValue string, ignored func(name string) bool) (map[string]string, bool) {
	fields, ok := n.value.(map[string]any)
	if !ok {
		n.fail("%s", wrongMap)
		return nil, false
	}
	m := map[string]string{}
	entries, ok := node{n.reader, n.path, fields}.entries("")
	for _, entry := range entries {
		name := entry.name(n)
		if ignored != nil && ignored(name) {
			entry.ignore()
			continue
		}
		switch entry.value.(type) {
		case string, float64:
			m[name] = fmt.Sprint(entry.value)
		default:
			entry.fail("%v %s", entry.value, wrongValue)
			ok = false
		}
	}
	return m, ok
}

// amounts is a map of resource to quantity, which a check validates.
func amounts(to *map[string]string) value {
	return valueOf(to, nil, (*pflag.FlagSet).StringToStringVar, node.amounts).as(func() any { return notNil(*to) })
}

func (n node) amounts() (map[string]string, bool) {
	return readAmounts(n, "must be a map of resource to quantity, such as {cpu: 500m, memory: 1Gi}",
		"is not a valid quantity, such as 500m or 1Gi", nil)
}

// signals is a map of eviction signal to amount, which a check validates. A flag has the separator
// between them. Signals of containerfs are ignored: the writable layers of containers are on the
// image file system or on the node's, and the kubelet uses their thresholds too.
func signals(to *map[string]string, separator string, base map[string]string) value {
	declare := func(f *pflag.FlagSet, to *map[string]string, flag string, _ map[string]string, help string) {
		f.Var(&signalMap{to, separator}, flag, help)
	}
	return valueOf(to, base, declare, func(n node) (map[string]string, bool) {
		return readAmounts(n, "must be a map of signal to amount, such as {memory.available: 100Mi}",
			`is not a string; quote it, such as "100Mi"`,
			func(name string) bool { return strings.HasPrefix(name, "containerfs.") })
	}).as(func() any { return notNil(*to) })
}

func notNil(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

package config

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// Field is a field of the configuration file, for its documentation and its schema.
type Field struct {
	// Kind is the kind of the document, and Path the path in it.
	Kind, Path string
	// Flag is the flag with the same meaning, and Type the type of its value as pflag names
	// it; both are empty if there is none.
	Flag, Type string
	// Values are all that it can have, nil if there are more than a few.
	Values []string
	Usage  string
}

// declared returns the rows of the table with their flags.
func declared() []*setting {
	o := &Options{}
	o.AddFlags(pflag.NewFlagSet("", pflag.ContinueOnError))
	return o.table.rows
}

// Fields returns the fields of the configuration file, sorted by kind and path.
func Fields() []Field {
	var all []Field
	for _, s := range declared() {
		field := Field{Kind: kubeletKind.Kind, Path: s.path(), Flag: s.flag, Usage: s.help}
		if s.own != "" {
			field.Kind = podsteadKind.Kind
		}
		if field.Values = slices.Clone(s.value.choices); field.Values != nil && (s.own == "" || s.value.get() == nil) {
			field.Values = slices.Insert(field.Values, 0, "")
		}
		if flag := s.declared; flag != nil {
			field.Type = flag.Value.Type()
			_, field.Usage = pflag.UnquoteUsage(flag)
			if base := flag.DefValue; base != "" && base != "[]" && base != "false" && !strings.Contains(field.Usage,
				"(default") {
				field.Usage += " (default " + base + ")"
			}
		}
		if field.Path != "" {
			all = append(all, field)
		}
	}
	slices.SortFunc(all, func(a, b Field) int {
		return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(strings.ToLower(a.Path), strings.ToLower(b.Path)))
	})
	return all
}

// WithoutField returns the flags of run without a field, and why they have none.
func WithoutField() map[string]string {
	flags := map[string]string{}
	for _, s := range declared() {
		if s.without != "" {
			flags[s.flag] = s.without
		}
	}
	return flags
}

// Verdicts of a flag of a kubelet.
const (
	Honoured = "honoured"
	NoEffect = "no effect"
	Refused  = "refused"
)

// KubeletFlag is a flag of a kubelet that run accepts or refuses in addition to its own.
type KubeletFlag struct {
	Name    string
	Boolean bool
	// Verdict is Honoured, NoEffect or Refused; if Values is not empty, those are refused only.
	Verdict string
	Values  []string
	Why     string
	// Removed is set if the kubelet 1.36 does not have it any more.
	Removed bool
}

// KubeletFlags returns the flags of a kubelet that are not podstead's own.
func KubeletFlags() (flags []KubeletFlag) {
	for _, k := range kubeletFlags {
		flag := KubeletFlag{Name: k.name, Boolean: k.boolean, Verdict: NoEffect, Why: k.why, Removed: k.removed}
		if honoured[k.name] != nil {
			flag.Verdict = Honoured
		}
		for _, value := range slices.Sorted(maps.Keys(k.refused)) {
			if value == "" {
				flag.Verdict, flag.Why = Refused, k.refused[value]
				if same := slices.DeleteFunc(slices.Clone(k.same), func(value string) bool { return value == "" }); len(same) > 0 {
					flag.Why = "unless `" + strings.Join(same, "` or `") + "`: " + flag.Why
				}
				continue
			}
			flag.Values = append(flag.Values, value)
			flag.Why = strings.TrimPrefix(flag.Why+"; `"+value+"` is refused: "+k.refused[value], "; ")
		}
		flags = append(flags, flag)
	}
	slices.SortFunc(flags, func(a, b KubeletFlag) int { return strings.Compare(a.Name, b.Name) })
	return flags
}

package config

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/podstead/podstead/config/configfile"
	"github.com/podstead/podstead/config/kubeletconfig"
	"github.com/podstead/podstead/internal/suggest"
)

// The configuration file and the directory of drop-in files without flags. The directory
// belongs to the file: it is not read with another --config.
const (
	DefaultConfigFile = "/etc/podstead/config.yaml"
	DefaultConfigDir  = "/etc/podstead/config.d"
)

// FileError is an error in a configuration file, as opposed to the command line.
type FileError struct{ Err error }

// Error returns the text of Err.
func (e *FileError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *FileError) Unwrap() error { return e.Err }

// settings are the contents of the configuration files.
type settings struct {
	files        *configfile.Configuration
	kubelet, own *configfile.Document
	config       *kubeletconfig.Config
}

// readConfig reads the configuration files and validates each field. Each file is valid by
// itself, so that an error is found before another file overrides it.
func (o *Options) readConfig(f *pflag.FlagSet) (*settings, error) {
	if !f.Changed("config") {
		if !f.Changed("config-dir") {
			o.configDir = existing(o.configDir)
		}
		o.configFile = existing(o.configFile)
	} else if !f.Changed("config-dir") {
		o.configDir = ""
	}
	files, err := configfile.Load(o.configFile, o.configDir, kubeletconfig.Kind, configfile.Kind{APIVersion: podsteadVersion, Kind: podsteadKind})
	if err != nil {
		return nil, &FileError{err}
	}
	s := &settings{files: files, kubelet: files.Merged(kubeletconfig.Kind.Kind), own: files.Merged(podsteadKind)}
	var errs []error
	for _, layer := range files.Layers {
		if doc := layer.Documents[kubeletconfig.Kind.Kind]; doc != nil {
			_, more := kubeletconfig.Parse(doc, ownHint)
			errs = append(errs, more...)
		}
		if doc := layer.Documents[podsteadKind]; doc != nil {
			scratch := pflag.NewFlagSet("", pflag.ContinueOnError)
			(&Options{}).AddFlags(scratch)
			_, err := parseLocalDevices(doc, false)
			errs = append(errs, applyOwn(scratch, doc), err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, &FileError{err}
	}
	var more []error
	s.config, more = kubeletconfig.Parse(s.kubelet, ownHint)
	if more = append(more, s.config.Unsupported...); len(more) > 0 {
		return nil, &FileError{errors.Join(more...)}
	}
	return s, nil
}

// existing returns a path, or "" if there is nothing. A link to nothing is something: its
// author expects it to be read.
func existing(path string) string {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return path
}

// ConfigFiles returns the configuration files that were read, in the order in which later ones
// override earlier ones.
func (o *Options) ConfigFiles() []string { return o.configFiles }

// ownHint returns a hint for a field of a PodsteadConfiguration in another document.
func ownHint(name string) string {
	if slices.ContainsFunc(ownFields, func(field ownField) bool { return field.name == name }) {
		return fmt.Sprintf("; it is a field of %s, a document of its own with apiVersion: %s", podsteadKind, podsteadVersion)
	}
	return ""
}

// applyOwn sets the flags for which a PodsteadConfiguration has a field, unless they are set
// on the command line.
func applyOwn(f *pflag.FlagSet, doc *configfile.Document) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(doc.Fields)) {
		value := doc.Fields[name]
		i := slices.IndexFunc(ownFields, func(field ownField) bool { return field.name == name })
		if i < 0 {
			errs = append(errs, fmt.Errorf("%s: %s: unknown field%s", doc.Position(name), name, ownSuggestion(name)))
			continue
		}
		if ownFields[i].flag == "" {
			continue
		}
		flag := f.Lookup(ownFields[i].flag)
		if value == nil || flag.Changed {
			continue // null is like a field that is not set
		}
		if list, isList := flag.Value.(pflag.SliceValue); isList && flag.Value.Type() == "stringArray" {
			if err := setList(list, value); err != nil {
				errs = append(errs, fmt.Errorf("%s: %s: %w", doc.Position(name), name, err))
			}
			if ownFields[i].path {
				values := list.GetSlice()
				for k := range values {
					values[k] = keyIn(doc.Dir(name), values[k])
				}
				_ = list.Replace(values) // they were valid before
			}
			continue
		}
		text, err := flagText(flag, value)
		if ownFields[i].path && text != "" && !filepath.IsAbs(text) {
			text = filepath.Join(doc.Dir(name), text)
		}
		if err == nil && flag.Value.Set(text) != nil {
			err = fmt.Errorf("%q is not a valid %s%s", text, flag.Value.Type(), map[string]string{"duration": ", such as 20s or 1m30s"}[flag.Value.Type()])
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %s: %w", doc.Position(name), name, err))
		}
	}
	return errors.Join(errs...)
}

func ownSuggestion(name string) string {
	if slices.Contains(kubeletconfig.Known(), name) {
		return fmt.Sprintf("; it is a field of %s, a document of its own with apiVersion: %s", kubeletconfig.Kind.Kind, kubeletconfig.Kind.APIVersion)
	}
	var names []string
	for _, field := range ownFields {
		names = append(names, field.name)
	}
	if near := suggest.Nearest(name, names); near != "" {
		return "; did you mean " + near + "?"
	}
	return "; see docs/configuration.md for the fields"
}

// flagText returns the value of a field as the text of its flag.
func flagText(flag *pflag.Flag, value any) (string, error) {
	switch kind := flag.Value.Type(); kind {
	case "bool":
		if b, ok := value.(bool); ok {
			return strconv.FormatBool(b), nil
		}
		return "", fmt.Errorf("%v is not a boolean; use true or false", value)
	case "int":
		if n, ok := value.(float64); ok && n == math.Trunc(n) && math.Abs(n) <= math.MaxInt32 {
			return strconv.Itoa(int(n)), nil
		}
		return "", fmt.Errorf("%v is not an integer", value)
	case "stringToString":
		return pairs(value)
	default:
		if s, ok := value.(string); ok {
			return s, nil
		}
		return "", fmt.Errorf("%v is not a string; quote it", value)
	}
}

// setList sets a flag that can be repeated to the strings of a list.
func setList(flag pflag.SliceValue, value any) error {
	items, ok := value.([]any)
	if !ok {
		return fmt.Errorf("%v is not a list, such as [a, b]", value)
	}
	var texts []string
	for i, item := range items {
		s, ok := item.(string)
		if !ok {
			return fmt.Errorf("[%d]: %v is not a string; quote it", i, item)
		}
		texts = append(texts, s)
	}
	return flag.Replace(texts)
}

// pairs returns a map as the flag takes it.
func pairs(value any) (string, error) {
	fields, ok := value.(map[string]any)
	if !ok {
		return "", fmt.Errorf("%v is not a map, such as {disk: ssd}", value)
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		s, ok := fields[name].(string)
		if !ok {
			return "", fmt.Errorf("%s: %v is not a string; quote it", name, fields[name])
		}
		list = append(list, name+"="+s)
	}
	if len(list) == 0 {
		return "", nil
	}
	var text strings.Builder
	w := csv.NewWriter(&text)
	if err := w.Write(list); err != nil {
		return "", err
	}
	w.Flush()
	return strings.TrimSuffix(text.String(), "\n"), nil
}

// position returns the name and the position of the field for a flag, if a file sets it and
// the command line does not.
func (s *settings) position(f *pflag.FlagSet, flag string) (name string, at configfile.Position, ok bool) {
	if f.Changed(flag) {
		return "", at, false
	}
	if name = kubeletFields[flag]; name != "" {
		return name, s.kubelet.Position(name), s.kubelet.Has(name)
	}
	for _, field := range ownFields {
		if field.flag == flag {
			return field.name, s.own.Position(field.name), s.own.Has(field.name)
		}
	}
	return "", at, false
}

var (
	flagNames  = regexp.MustCompile(`--[a-z][a-z0-9-]*`)
	fieldStart = regexp.MustCompile(`^[a-z][A-Za-z0-9]*`)
	namedTwice = regexp.MustCompile(`\b(\w+) \(([\w.]+)\)`)
)

// locate puts the file, line and field before each error about a setting that comes from a
// file, and names the field instead of the flag.
func (s *settings) locate(f *pflag.FlagSet, err error) error {
	if err == nil {
		return nil
	}
	var errs []error
	found := false
	for _, err := range flatten(err) {
		text, first := err.Error(), ""
		text = flagNames.ReplaceAllStringFunc(text, func(flag string) string {
			name, at, ok := s.position(f, flag[2:])
			if !ok {
				return flag
			}
			if first == "" {
				first = at.String()
			}
			return name
		})
		if name := fieldStart.FindString(text); first == "" && s.kubelet.Has(name) {
			first = s.kubelet.Position(name).String()
		}
		if first == "" {
			errs = append(errs, err)
			continue
		}
		found = true
		text = namedTwice.ReplaceAllStringFunc(text, func(pair string) string {
			if m := namedTwice.FindStringSubmatch(pair); m[1] == m[2] {
				return m[1]
			}
			return pair
		})
		errs = append(errs, fmt.Errorf("%s: %s", first, text))
	}
	if !found {
		return err
	}
	return &FileError{errors.Join(errs...)}
}

// flatten returns the errors that are joined in one.
func flatten(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var all []error
	for _, err := range joined.Unwrap() {
		all = append(all, flatten(err)...)
	}
	return all
}

// fileNotices returns log messages about what is in the files and has no effect.
func (s *settings) fileNotices() (notices []string) {
	if len(s.files.Skipped) > 0 {
		notices = append(notices, fmt.Sprintf("ignoring files without the extension .conf in the directory of drop-in files: %s", strings.Join(s.files.Skipped, ", ")))
	}
	byFile := map[string][]string{}
	for _, name := range s.config.Ignored {
		file := s.kubelet.Position(name).File
		byFile[file] = append(byFile[file], name)
	}
	for _, file := range slices.Sorted(maps.Keys(byFile)) {
		notices = append(notices, fmt.Sprintf("%s sets fields that this version does not support: %s", file, strings.Join(byFile[file], ", ")))
	}
	return notices
}

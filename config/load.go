package config

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/podstead/podstead/config/configfile"
)

// The configuration file and the directory of drop-in files without flags. The directory
// belongs to the file: it is not read with another --config.
const (
	DefaultConfigFile = "/etc/podstead/config.yaml"
	DefaultConfigDir  = "/etc/podstead/config.d"
)

// fileSettings are those that name the files.
func (o *Options) fileSettings() []setting {
	return []setting{
		{flag: "config", without: "names the file", value: text(&o.configFile, DefaultConfigFile),
			help: "configuration `file`: a KubeletConfiguration (v1beta1), a PodsteadConfiguration, or both; flags override " +
				"it; the default is read if it exists; empty for none"},
		{flag: "config-dir", without: "names the drop-in files", value: text(&o.configDir, DefaultConfigDir),
			help: "`directory` of drop-in configuration files (*.conf), which override --config in the order of their names; " +
				"the default is read if it exists, and only with the default of --config"},
	}
}

// AddFlags declares the flags of run. Those that the kubelet has carry its names. The options must
// not be copied afterwards.
func (o *Options) AddFlags(f *pflag.FlagSet) {
	o.table = newTable(o.groups())
	o.table.addFlags(f)
	addKubeletFlags(f)
}

// Complete reads the configuration files and validates all settings, after the flags that AddFlags
// declared were parsed. The notices are log messages about settings that have no effect. The error
// has all faults, one a line; it is a FileError if one is in a file.
func (o *Options) Complete(f *pflag.FlagSet) (notices []string, err error) {
	o.table.takeFlags()
	notices, complete := o.readFiles()
	o.reportAsOftenAsUpdated()
	notices = append(notices, o.applyKubeletFlags(f)...)
	if !complete {
		return nil, o.table.err()
	}
	o.table.check()
	notices = append(notices, o.check()...)
	if err := o.table.err(); err != nil {
		return nil, err
	}
	return notices, nil
}

// ConfigFiles returns the configuration files that were read, in the order in which later ones
// override earlier ones.
func (o *Options) ConfigFiles() []string { return o.table.files }

// LogFiles logs which files were read. Without one, the default is named unless --config excludes it.
func (o *Options) LogFiles(log *slog.Logger) {
	switch {
	case len(o.table.files) > 0:
		log.Info("Configuration loaded", "files", o.table.files)
	case o.table.at(&o.configFile).isSet():
		log.Info("No configuration file, using flags and defaults")
	default:
		log.Info("No configuration file, using flags and defaults", "file", DefaultConfigFile)
	}
}

// readFiles reads the configuration files into the settings that no flag sets. The types, choices and
// unknown fields of each file are checked by itself, so that an error is found before another file
// overrides it; other checks are of the merged result, since a map may be completed by a drop-in and a
// flag may correct a value. It returns false if a file
// could not be read: the values are not those that its author wants.
func (o *Options) readFiles() (notices []string, complete bool) {
	t := o.table
	if config, dir := t.at(&o.configFile), t.at(&o.configDir); !config.isSet() {
		if !dir.isSet() {
			o.configDir = existing(o.configDir)
		}
		o.configFile = existing(o.configFile)
	} else if !dir.isSet() {
		o.configDir = ""
	}
	files, err := configfile.Load(o.configFile, o.configDir, kubeletKind, podsteadKind)
	if err != nil {
		t.unreadable = true
		t.faults = append(t.faults, &fault{text: err.Error()})
	}
	if files == nil {
		return nil, false
	}
	t.files = files.Files()
	kinds := []configfile.Kind{kubeletKind, podsteadKind}
	for _, layer := range files.Layers {
		for _, kind := range kinds {
			if doc := layer.Documents[kind.Kind]; doc != nil {
				one := newTable((&Options{}).groups())
				one.read(kind, doc)
				one.checkChoices()
				t.faults = append(t.faults, one.faults...)
			}
		}
	}
	if err != nil {
		return nil, false
	}
	if len(files.Skipped) > 0 {
		notices = append(notices, fmt.Sprintf("ignoring files without the extension .conf in the directory of drop-in "+
			"files: %s", strings.Join(files.Skipped, ", ")))
	}
	byFile := map[string][]string{}
	for _, kind := range kinds {
		doc := files.Merged(kind.Kind)
		r := t.read(kind, doc)
		t.faults = append(t.faults, r.refused...)
		for _, path := range r.ignored {
			file := doc.Position(path).File
			byFile[file] = append(byFile[file], path)
		}
	}
	for _, file := range slices.Sorted(maps.Keys(byFile)) {
		notices = append(notices, fmt.Sprintf("%s sets fields that this version does not support: %s", file,
			strings.Join(byFile[file], ", ")))
	}
	return notices, true
}

// existing returns a path, or "" if there is nothing. A link to nothing is something: its
// author expects it to be read.
func existing(path string) string {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return path
}

package config

import (
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

//go:embed kubelet_flags.txt
var kubeletFlagsText string

// kubeletFlag is a flag of a kubelet, of this or an earlier version, that podstead accepts so
// that the command line of an existing unit starts. It is not in the help.
type kubeletFlag struct {
	name string
	// boolean is set for a flag that can be given without a value.
	boolean bool
	// same are values that describe what podstead does anyway: there is no notice.
	same []string
	// refused are values, "" for any that is not in same, that would be unsafe or surprising
	// to ignore, each with what to do.
	refused map[string]string
	// why reports why it has no effect or, if it is honoured, what it means.
	why string
	// removed is set if the kubelet 1.36 does not have it any more.
	removed bool
}

// kubeletFlags are all of them.
var kubeletFlags = parseKubeletFlags(kubeletFlagsText)

// honoured are those that have an effect.
var honoured = map[string]func(o *Options, value string) error{
	"serialize-image-pulls":        (*Options).serializePullsFlag,
	"node-status-update-frequency": (*Options).statusUpdateFlag,
	"node-status-max-images":       (*Options).statusImagesFlag,
	"v":                            (*Options).verbosityFlag,
	"logging-format":               (*Options).loggingFormatFlag,
	"fail-swap-on":                 (*Options).failSwapOnFlag,
	"image-service-endpoint":       (*Options).imageEndpointFlag,
}

// parseKubeletFlags parses the sections of the file, whose head describes the lines.
func parseKubeletFlags(text string) (flags []kubeletFlag) {
	_, text, _ = strings.Cut(text, "\n\n[")
	removed := false
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" || strings.HasSuffix(line, "]") {
			removed = line == "[removed]" || removed
			continue
		}
		k := kubeletFlag{removed: removed, refused: map[string]string{}}
		line, k.why, _ = strings.Cut(line, " # ")
		parts := strings.Split(line, " ! ")
		for _, refused := range parts[1:] {
			value, remedy, ok := strings.Cut(refused, ": ")
			if !ok || strings.Contains(value, " ") {
				value, remedy = "", refused
			}
			k.refused[value] = remedy
		}
		line, same, _ := strings.Cut(parts[0], " = ")
		for _, value := range strings.Fields(same) {
			k.same = append(k.same, strings.Trim(value, `"`))
		}
		k.name, k.boolean = strings.CutSuffix(line, " bool")
		flags = append(flags, k)
	}
	return flags
}

// inertValue is the text of a kubeletFlag.
type inertValue struct {
	text    string
	boolean bool
}

func (v *inertValue) String() string { return v.text }

// Set checks only booleans: the format of the others does not matter.
func (v *inertValue) Set(text string) error {
	if v.boolean {
		b, err := strconv.ParseBool(text)
		if err != nil {
			return errors.New("must be true or false")
		}
		text = strconv.FormatBool(b)
	}
	v.text = text
	return nil
}

func (v *inertValue) Type() string {
	if v.boolean {
		return "bool"
	}
	return "string"
}

// addKubeletFlags declares the flags of a kubelet that are not podstead's, hidden. Like the
// kubelet it reads underscores in the names of flags as dashes.
func addKubeletFlags(f *pflag.FlagSet) {
	f.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(strings.ReplaceAll(name, "_", "-"))
	})
	for _, k := range kubeletFlags {
		short := ""
		if k.name == "v" {
			short = "v"
		}
		flag := f.VarPF(&inertValue{boolean: k.boolean}, k.name, short, k.why)
		if flag.Hidden = true; k.boolean {
			flag.NoOptDefVal = "true"
		}
	}
}

// applyKubeletFlags honours those that it can, records a fault for each that must not be ignored,
// and returns a notice about each other that has no effect.
func (o *Options) applyKubeletFlags(f *pflag.FlagSet) (notices []string) {
	for _, k := range kubeletFlags {
		flag := f.Lookup(k.name)
		if !flag.Changed {
			continue
		}
		value := flag.Value.String()
		fail := func(why string) { o.table.fail("--%s=%s: %s", k.name, value, why) }
		remedy, refused := k.refused[value]
		if other := k.refused[""]; other != "" && !refused && !slices.Contains(k.same, value) {
			remedy, refused = other, true
		}
		apply := honoured[k.name]
		switch {
		case refused:
			fail("is not supported: " + remedy)
		case k.name == "feature-gates" && strings.Contains(value, "MemoryQoS=true"):
			fail("MemoryQoS is not supported as a flag; set featureGates: {MemoryQoS: true} in the configuration file")
		case apply != nil:
			if err := apply(o, value); err != nil {
				fail(err.Error())
			}
		case !slices.Contains(k.same, value):
			notices = append(notices, fmt.Sprintf("--%s has no effect: %s", k.name, k.why))
		}
	}
	return notices
}

// failSwapOnFlag honours the flag with the field's meaning. The check is in checkHost.
func (o *Options) failSwapOnFlag(value string) error {
	o.Cgroups.failSwapOn = value == "true"
	s := o.table.at(&o.Cgroups.failSwapOn)
	s.flag, s.source = "fail-swap-on", fromFlag
	return nil
}

func (o *Options) serializePullsFlag(value string) error {
	o.Runtime.serialize = false
	if value == "true" {
		o.Runtime.ParallelPulls = 1
	} else if o.Runtime.ParallelPulls == 1 {
		o.Runtime.ParallelPulls = 0
	}
	return nil
}

func (o *Options) statusUpdateFlag(value string) error {
	d, err := time.ParseDuration(value)
	if err != nil || d <= 0 {
		return errors.New("must be a duration, such as 10s")
	}
	o.Cluster.StatusUpdate = d
	o.Cluster.StatusReport = max(o.Cluster.StatusReport, d)
	return nil
}

func (o *Options) statusImagesFlag(value string) error {
	n, err := strconv.Atoi(value)
	if err != nil || n < -1 {
		return errors.New("must be a number of images, or -1 for no limit")
	}
	o.Cluster.Images = n
	return nil
}

// debugVerbosity is the verbosity from which a kubelet logs what helps to debug it.
const debugVerbosity = 4

func (o *Options) verbosityFlag(value string) error {
	n, err := strconv.Atoi(value)
	if err != nil || n < 0 {
		return errors.New("must be a number")
	}
	o.Log.Debug = o.Log.Debug || n >= debugVerbosity
	return nil
}

func (o *Options) loggingFormatFlag(value string) error {
	if value != "text" && value != "json" {
		return errors.New("must be text or json")
	}
	if o.table.at(&o.Log.Format).source != fromFlag {
		o.Log.Format = value
	}
	return nil
}

// imageEndpointFlag accepts the runtime's endpoint: images of another service would be missing
// when containers start.
func (o *Options) imageEndpointFlag(value string) error {
	if value != "" && strings.TrimPrefix(value, "unix://") != strings.TrimPrefix(o.Runtime.Endpoint, "unix://") {
		return errors.New("is not supported: must be the same as --container-runtime-endpoint; remove the flag")
	}
	return nil
}

package config

import (
	"io"
	"slices"

	"github.com/spf13/pflag"
)

// ParseRun returns the flags that a daemon was started with and their options, which are not complete yet. args is
// the command line of a process, with the name of its program; false for that of another program.
func ParseRun(args []string) (*pflag.FlagSet, *Options, bool) {
	at := slices.Index(args, "run")
	if at < 1 {
		return nil, nil, false
	}
	o := &Options{}
	flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
	flags.SetOutput(io.Discard)
	o.AddFlags(flags)
	if flags.Parse(args[at+1:]) != nil {
		return nil, nil, false
	}
	return flags, o, true
}

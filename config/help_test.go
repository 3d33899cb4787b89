package config

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// The help shows one default of each flag, and no empty ones.
func TestHelpDefaults(t *testing.T) {
	f := pflag.NewFlagSet("run", pflag.ContinueOnError)
	(&Options{}).AddFlags(f)
	for _, line := range strings.Split(f.FlagUsages(), "\n") {
		if strings.Count(line, "(default") > 1 || strings.Contains(line, "(default [])") {
			t.Error(line)
		}
	}
}

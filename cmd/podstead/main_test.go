package main

import (
	"bytes"
	"testing"

	"github.com/podstead/podstead/cli"
	"github.com/podstead/podstead/internal/buildinfo"
)

// An invalid value of a flag is an invalid command line, for run as for check.
func TestInvalidFlagValueExitCode(t *testing.T) {
	for _, name := range []string{"run", "check"} {
		for _, flag := range []string{"--image-gc-period=0s", "--manifest-validation=x", "--nosuch"} {
			root := command()
			root.SetArgs([]string{name, flag})
			if err := root.Execute(); cli.Code(err) != cli.ExitUsage || cli.Silent(err) {
				t.Errorf("%s %s: %v (%d)", name, flag, err, cli.Code(err))
			}
		}
	}
}

// version and --version print the same text.
func TestVersion(t *testing.T) {
	var texts []string
	for _, arg := range []string{"version", "--version"} {
		var out bytes.Buffer
		root := command()
		root.SetOut(&out)
		root.SetArgs([]string{arg})
		if err := root.Execute(); err != nil {
			t.Fatal(err)
		}
		texts = append(texts, out.String())
	}
	if want := "podstead version " + buildinfo.Version() + " (Kubernetes v1.36.6)\n"; texts[0] != want ||
		texts[1] != want {
		t.Errorf("%q, want %q", texts, want)
	}
}

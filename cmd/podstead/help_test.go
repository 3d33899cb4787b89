package main

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/podstead/podstead/config"
)

// maxHelpLine is how long a line of a help text may be.
const maxHelpLine = 120

// The help of run and check has each flag of the daemon once, in a group, and no line that is too long
// to read.
func TestHelpIsGrouped(t *testing.T) {
	for _, name := range []string{"run", "check"} {
		t.Run(name, func(t *testing.T) { helpIsGrouped(t, name) })
	}
}

func helpIsGrouped(t *testing.T, name string) {
	out, err := execute("podstead", name, "--help")
	if err != nil {
		t.Fatal(err)
	}
	run, _, err := command().Find([]string{"run"})
	if err != nil {
		t.Fatal(err)
	}
	run.Flags().VisitAll(func(f *pflag.Flag) {
		for _, title := range f.Annotations[config.GroupAnnotation] {
			if strings.Count(out, "\n\n"+title+":\n") != 1 {
				t.Errorf("group %s is missing or repeated", title)
			}
		}
		if !f.Hidden && f.Name != "help" && len(f.Annotations[config.GroupAnnotation]) != 1 {
			t.Errorf("--%s has no group", f.Name)
		}
		if n := strings.Count(out, " --"+f.Name+" ") + strings.Count(out, " --"+f.Name+"\n"); !f.Hidden &&
			f.Deprecated == "" && n < 1 {
			t.Errorf("--%s is shown %d times", f.Name, n)
		}
	})
	for _, line := range strings.Split(out, "\n") {
		if len(line) > maxHelpLine && len(strings.Fields(line)) > 1 {
			t.Errorf("%d characters: %s", len(line), line)
		}
	}
}

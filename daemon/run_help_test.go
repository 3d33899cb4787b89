package daemon

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/podstead/podstead/config"
)

// maxHelpLine is how long a line of a help text may be.
const maxHelpLine = 120

// The help of run and check has each flag of the daemon once, in a group, and no line that is too long
// to read.
func TestHelpIsGrouped(t *testing.T) {
	for _, create := range []func() *cobra.Command{runCommand, checkCommand} {
		t.Run(create().Name(), func(t *testing.T) { helpIsGrouped(t, create()) })
	}
}

func helpIsGrouped(t *testing.T, cmd *cobra.Command) {
	var help strings.Builder
	cmd.SetOut(&help)
	cmd.SetArgs([]string{"--help"})
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	out := help.String()
	runCommand().Flags().VisitAll(func(f *pflag.Flag) {
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

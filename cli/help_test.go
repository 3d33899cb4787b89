package cli

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// The help of every command fits a terminal, with the exception of examples, which users copy.
func TestHelpFitsATerminal(t *testing.T) {
	for _, width := range []int{minHelpWidth, 100, maxHelpWidth} {
		root := &cobra.Command{Use: "podstead"}
		root.AddCommand(Commands(Version{})...)
		Finish(root)
		eachCommand(root, func(cmd *cobra.Command) {
			cmd.InitDefaultHelpFlag()
			text, _, _ := strings.Cut(helpText(cmd, "", width), "\nExamples:\n")
			_, flags, _ := strings.Cut(helpText(cmd, "", width), "\nFlags:\n")
			for _, line := range strings.Split(text+flags, "\n") {
				if n := utf8.RuneCountInString(line); n > width {
					t.Errorf("%s at width %d has %d: %s", cmd.CommandPath(), width, n, line)
				}
			}
		})
	}
}

// Paragraphs are wrapped as a whole; indented lines stay, with what follows below their second column.
func TestHelpWraps(t *testing.T) {
	got := wrapText(`One two three
four five.

  name   a long description
  other  short`, 20)
	want := `One two three four
five.

  name   a long
         description
  other  short
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

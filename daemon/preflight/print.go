package preflight

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/podstead/podstead/cli/terminal"
)

// Print writes the findings in their groups, each problem followed by the command that fixes it. The output is json, or
// empty for text.
func Print(w io.Writer, list []Finding, output string) error {
	if output == "json" {
		failed, warned, _ := count(list)
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return e.Encode(struct {
			Findings []Finding `json:"findings"`
			Failed   int       `json:"failed"`
			Warned   int       `json:"warned"`
		}{list, failed, warned})
	}
	_, err := io.WriteString(w, text(list, terminal.Detect(w)))
	return err
}

// levelColors are the colors of levels on a terminal.
var levelColors = map[Level]terminal.Color{OK: terminal.Green, Warn: terminal.Yellow, Fail: terminal.Red}

// minMessageWidth is the width to which a message is wrapped at least, however narrow the terminal is.
const minMessageWidth = 30

// text returns the findings for people. Messages are wrapped to the width of a terminal; commands, which are copied,
// are not.
func text(list []Finding, screen terminal.Terminal) string {
	width := 0
	for _, f := range list {
		width = max(width, len(f.Check))
	}
	indent := strings.Repeat(" ", 8+width) // the level, the name of the check, and two blanks after each
	var b strings.Builder
	for i, f := range list {
		if i == 0 || f.Group != list[i-1].Group {
			if i > 0 {
				b.WriteString("\n")
			}
			b.WriteString(terminal.Title(f.Group) + "\n")
		}
		message := []string{f.Message}
		if screen.Width > 0 {
			message = terminal.Wrap(f.Message, max(screen.Width-len(indent), minMessageWidth))
		}
		level := screen.Paint(fmt.Sprintf("%-4s", f.Level), levelColors[f.Level])
		fmt.Fprintf(&b, "%s  %-*s  %s\n", level, width, f.Check, strings.Join(message, "\n"+indent))
		switch {
		case f.Fix == "":
		case f.Repaired:
			fmt.Fprintf(&b, "%sfix, which was run and did not help: %s\n", indent, f.Fix)
		default:
			fmt.Fprintf(&b, "%sfix: %s\n", indent, f.Fix)
		}
	}
	failed, warned, repairable := count(list)
	fmt.Fprintf(&b, "\n%d failed, %s, %d ok\n", failed, terminal.Count(warned, "warning"), len(list)-failed-warned)
	if repairable > 0 {
		fmt.Fprintf(&b, "podstead check --fix runs the fixes that need no decision, here of %s\n",
			terminal.Count(repairable, "problem"))
	}
	return b.String()
}

// count returns how many findings are failures and warnings, and how many --fix would repair.
func count(list []Finding) (failed, warned, repairable int) {
	for _, f := range list {
		if f.Level == Warn {
			warned++
		}
		if f.Repair != "" && !f.Repaired {
			repairable++
		}
	}
	return Failed(list), warned, repairable
}

package preflight

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// Print writes the findings, each problem followed by the command that
// fixes it. The output is json, or empty for text.
func Print(w io.Writer, list []Finding, output string) error {
	failed, warned := Failed(list), 0
	for _, f := range list {
		if f.Level == Warn {
			warned++
		}
	}
	if output == "json" {
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return e.Encode(struct {
			Findings []Finding `json:"findings"`
			Failed   int       `json:"failed"`
			Warned   int       `json:"warned"`
		}{list, failed, warned})
	}
	width := 0
	for _, f := range list {
		width = max(width, len(f.Check))
	}
	var text strings.Builder
	for _, f := range list {
		fmt.Fprintf(&text, "%-4s  %-*s  %s\n", f.Level, width, f.Check, f.Message)
		if f.Fix != "" {
			label := "fix"
			if f.Repaired {
				label = "fix, which was run and did not help"
			}
			fmt.Fprintf(&text, "%*s  %s: %s\n", 6+width, "", label, f.Fix)
		}
	}
	fmt.Fprintf(&text, "%d failed, %d warnings, %d ok\n", failed, warned, len(list)-failed-warned)
	_, err := io.WriteString(w, text.String())
	return err
}

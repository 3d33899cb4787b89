package preflight

import (
	"context"
	"fmt"
	"io"
	"os/exec"
)

// Repair runs the commands of findings and reports whether there were any. It prints each
// command and its output. Those in ran are not run again, and the others are added to it.
func Repair(ctx context.Context, w io.Writer, list []Finding, ran map[string]bool) bool {
	before := len(ran)
	for _, f := range list {
		if f.Repair == "" || ran[f.Repair] {
			continue
		}
		ran[f.Repair] = true
		fmt.Fprintf(w, "+ %s\n", f.Repair)
		c := exec.CommandContext(ctx, "sh", "-c", f.Repair)
		c.Stdout, c.Stderr = w, w
		if err := c.Run(); err != nil {
			fmt.Fprintf(w, "%s: the fix failed: %v\n", f.Check, err)
		}
	}
	return len(ran) > before
}

package preflight

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"slices"
)

// Repair runs the commands of findings, each once, and the checks again after each: a fix can change nothing, and it
// can reveal the next finding, as a new network needs a kernel module. It prints each command, its output, and whether
// the problem is gone. It returns the findings of the last check; those whose command has changed nothing are Repaired.
func Repair(ctx context.Context, w io.Writer, check func() []Finding) []Finding {
	list, ran := check(), map[string]bool{}
	for {
		i := slices.IndexFunc(list, func(f Finding) bool { return f.Repair != "" && !ran[f.Repair] })
		if i < 0 || ctx.Err() != nil {
			break
		}
		f := list[i]
		ran[f.Repair] = true
		fmt.Fprintf(w, "+ %s\n", f.Repair)
		c := exec.CommandContext(ctx, "sh", "-c", f.Repair)
		c.Stdout, c.Stderr = w, w
		err := c.Run()
		list = check()
		left := slices.IndexFunc(list, func(now Finding) bool { return now.Check == f.Check && now.Repair == f.Repair })
		switch {
		case err != nil:
			fmt.Fprintf(w, "%s: the fix failed: %v\n", f.Check, err)
		case left >= 0:
			fmt.Fprintf(w, "%s: the fix has changed nothing: %s\n", f.Check, list[left].Message)
		default:
			fmt.Fprintf(w, "%s: fixed\n", f.Check)
		}
	}
	for i := range list {
		list[i].Repaired = ran[list[i].Repair]
	}
	return list
}

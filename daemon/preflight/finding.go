package preflight

import "fmt"

// Level is the severity of a finding.
type Level string

// The levels. Pods run despite a Warn; with a Fail some or all pods do not run.
const (
	OK   Level = "ok"
	Warn Level = "warn"
	Fail Level = "fail"
)

// Finding is the result of a check.
type Finding struct {
	// Group is what the check is about, such as network. Check is its name, such as route.
	Group   string `json:"group"`
	Check   string `json:"check"`
	Level   Level  `json:"level"`
	Message string `json:"message"`
	// Fix is the command or configuration that fixes it; empty for OK, or if there is
	// none.
	Fix string `json:"fix,omitempty"`
	// Repair is the shell command that podstead check --fix runs; empty if the fix needs
	// a decision, or could affect more than podstead.
	Repair string `json:"repair,omitempty"`
	// Repaired reports that --fix has run that command, and that the problem is still there.
	Repaired bool `json:"repaired,omitempty"`
}

// repairedBy sets the command of --fix in findings that have a fix.
func repairedBy(command string, list []Finding) []Finding {
	for i := range list {
		if list[i].Fix != "" {
			list[i].Repair = command
		}
	}
	return list
}

// repaired sets the command of --fix to the fix itself.
func repaired(list []Finding) []Finding {
	for i := range list {
		list[i].Repair = list[i].Fix
	}
	return list
}

func ok(check, format string, args ...any) []Finding {
	return []Finding{{Check: check, Level: OK, Message: fmt.Sprintf(format, args...)}}
}

func warn(check, fix, format string, args ...any) []Finding {
	return []Finding{{Check: check, Level: Warn, Message: fmt.Sprintf(format, args...), Fix: fix}}
}

func fail(check, fix, format string, args ...any) []Finding {
	return []Finding{{Check: check, Level: Fail, Message: fmt.Sprintf(format, args...), Fix: fix}}
}

// Failed returns the number of findings with the level Fail.
func Failed(list []Finding) int {
	n := 0
	for _, f := range list {
		if f.Level == Fail {
			n++
		}
	}
	return n
}

package preflight

import "fmt"

// Level is how a part of the host was found.
type Level string

// The levels. Pods run beside a Warn; a Fail keeps some, or all, from running.
const (
	OK   Level = "ok"
	Warn Level = "warn"
	Fail Level = "fail"
)

// Finding is what one look at the host came to.
type Finding struct {
	// Check is the short name of the part, such as clock.
	Check   string `json:"check"`
	Level   Level  `json:"level"`
	Message string `json:"message"`
	// Fix is the command, or the line of a file, that mends it; empty if it is
	// ok, or if nothing but the message can be said.
	Fix string `json:"fix,omitempty"`
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

// Failed is how many of the findings are a Fail.
func Failed(list []Finding) int {
	n := 0
	for _, f := range list {
		if f.Level == Fail {
			n++
		}
	}
	return n
}

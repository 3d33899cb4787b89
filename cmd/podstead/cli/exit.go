package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/podstead/podstead/cmd/podstead/cli/client"
	"github.com/podstead/podstead/cmd/podstead/cli/objects"
	"github.com/podstead/podstead/cmd/podstead/cli/wait"
)

// Exit codes of every command, told in docs/cli.md.
const (
	// ExitFailed is a no: it failed, is not there, is faulty or differs.
	ExitFailed = 1
	// ExitUsage says that the command line is wrong.
	ExitUsage = 2
	// ExitNoDaemon says that no daemon answers.
	ExitNoDaemon = 3
	// ExitTimeout says that what was waited for did not come in time; timeout(1) has it.
	ExitTimeout = 124
	// ExitInterrupted says that Ctrl-C ended it; shells have it.
	ExitInterrupted = 130
)

// ExitError ends the program with a code of its own. Its text has been
// printed already if Err is nil.
type ExitError struct {
	Code int
	Err  error
}

// Error is the text of Err.
func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap is Err.
func (e *ExitError) Unwrap() error { return e.Err }

// usageError is an error of the command line.
func usageError(err error) error { return &ExitError{Code: ExitUsage, Err: err} }

// Silent reports whether the error needs no further line: it was told already,
// or whoever gave the command took it back.
func Silent(err error) bool {
	var exit *ExitError
	return errors.As(err, &exit) && exit.Err == nil || errors.Is(err, context.Canceled)
}

// Code is the exit code for an error: that of an ExitError, ExitInterrupted for
// a cancelled context, else ExitFailed; 0 for nil.
func Code(err error) int {
	var exit *ExitError
	var command *client.CommandError
	var usage *objects.UsageError
	var late *wait.TimeoutError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.Code
	case errors.As(err, &command):
		return command.Code
	case errors.As(err, &usage):
		return ExitUsage
	case errors.As(err, &late):
		return ExitTimeout
	case client.IsUnreachable(err):
		return ExitNoDaemon
	case errors.Is(err, context.Canceled):
		return ExitInterrupted
	}
	return ExitFailed
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/podstead/podstead/api/client"
	"github.com/podstead/podstead/cli/objects"
	"github.com/podstead/podstead/cli/streams"
	"github.com/podstead/podstead/cli/wait"
	"github.com/podstead/podstead/manifest/edit"
)

// Exit codes of every command, documented in docs/cli.md.
const (
	// ExitFailed means that the command failed, or that something is missing, invalid or
	// different.
	ExitFailed = 1
	// ExitUsage means that the command line is invalid.
	ExitUsage = 2
	// ExitNoDaemon means that the daemon cannot be reached.
	ExitNoDaemon = 3
	// ExitTimeout means that a wait timed out, as with timeout(1).
	ExitTimeout = 124
	// ExitInterrupted means that Ctrl-C ended the command, as in shells.
	ExitInterrupted = 130
)

// ExitError ends the program with the given exit code. If Err is nil, the message has
// been printed already.
type ExitError struct {
	Code int
	Err  error
}

// Error returns the text of Err.
func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns Err.
func (e *ExitError) Unwrap() error { return e.Err }

// usageError returns an error that ends the program with ExitUsage.
func usageError(err error) error { return &ExitError{Code: ExitUsage, Err: err} }

// Silent reports whether nothing needs to be printed for the error, because it has been
// printed already or because the user interrupted the command.
func Silent(err error) bool {
	var exit *ExitError
	return errors.As(err, &exit) && exit.Err == nil || errors.Is(err, context.Canceled)
}

// Message returns the text of an error as it is printed: errors of files without the name of the
// call that failed, and with the command that helps where there is one.
func Message(err error) string {
	text := err.Error()
	var path *fs.PathError
	if errors.As(err, &path) {
		text = strings.Replace(text, path.Error(), path.Path+": "+path.Err.Error(), 1)
	}
	if errors.Is(err, edit.ErrNotFound) {
		text += "; podstead get lists pods and other objects by type, such as podstead get pods"
	}
	return text
}

// Code returns the exit code for an error: 0 for nil, the code of an ExitError or of a
// command in a container, ExitInterrupted for a canceled context, the code of a usage
// error, a timeout or an unreachable daemon, otherwise ExitFailed.
func Code(err error) int {
	var exit *ExitError
	var command *streams.CommandError
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

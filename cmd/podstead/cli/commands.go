package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

// DefaultSocket is where the daemon answers.
const DefaultSocket = "/run/podstead/podstead.sock"

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

// Silent reports whether the error needs no further line: it was told already.
func Silent(err error) bool {
	var exit *ExitError
	return errors.As(err, &exit) && exit.Err == nil
}

// Code is the exit code for an error: that of an ExitError, else 1; 0 for nil.
func Code(err error) int {
	var exit *ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.Code
	}
	return 1
}

// Commands are all commands but run. The socket flag is the same for each.
func Commands(version string) []*cobra.Command {
	return []*cobra.Command{getCommand(), describeCommand(), logsCommand(), imagesCommand(), volumesCommand(), validateCommand(), versionCommand(version)}
}

func versionCommand(version string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), version)
			return err
		},
	}
	cmd.Flags().String("api-socket", DefaultSocket, "unused: version asks no daemon")
	return cmd
}

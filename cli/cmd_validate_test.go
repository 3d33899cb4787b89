package cli

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// fifo creates a named pipe that no process writes to.
func fifo(t *testing.T, path string) string {
	t.Helper()
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// What a directory contains besides files neither blocks validate nor hides the other manifests.
func TestValidatePipeInDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pipe := fifo(t, filepath.Join(dir, "a.yaml"))
	bad := filepath.Join(dir, "b.yaml")
	if err := os.WriteFile(bad, []byte(strings.Replace(good, "image: b:1", "imge: b:1", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	_, errs, err := execute(t, "", "validate", dir)
	if Code(err) != ExitFailed || !Silent(err) || !strings.Contains(errs, pipe+": is a named pipe; must be a file\n") ||
		!strings.Contains(errs, bad+":4: ") {
		t.Errorf("got %q %v", errs, err)
	}
}

// A stream that an argument names is read to its end, as that of a shell's <(command).
func TestValidatePipeArgument(t *testing.T) {
	t.Parallel()
	pipe := fifo(t, filepath.Join(t.TempDir(), "p"))
	go func() { _ = os.WriteFile(pipe, []byte(good), 0) }() // blocks until it is read
	out, errs, err := execute(t, "", "validate", pipe)
	if err != nil || errs != "" || out != "1 pod in 1 file: valid\n" {
		t.Errorf("got %q %q %v", out, errs, err)
	}
}

// A signal ends validate while it waits for its input.
func TestValidateInterrupted(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	for _, arg := range []string{fifo(t, filepath.Join(t.TempDir(), "p")), "-"} {
		root := &cobra.Command{Use: "podstead", SilenceErrors: true, SilenceUsage: true}
		root.AddCommand(Commands(Version{})...)
		var out bytes.Buffer
		root.SetOut(&out)
		root.SetErr(&out)
		root.SetIn(r)
		root.SetArgs([]string{"validate", arg})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := root.ExecuteContext(ctx); !errors.Is(err, context.Canceled) || Code(err) != ExitInterrupted {
			t.Errorf("%s: got %v", arg, err)
		}
	}
}

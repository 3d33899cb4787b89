package cli

import (
	"os"
	"strings"
	"testing"
)

// The reference documents every command.
func TestReferenceNamesEveryCommand(t *testing.T) {
	data, err := os.ReadFile("../../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for _, cmd := range Commands("") {
		if !strings.Contains(text, "`"+cmd.Name()) {
			t.Errorf("docs/cli.md does not document podstead %s", cmd.Name())
		}
	}
}

// Each command has a help text and the flag --api-socket.
func TestEveryCommandHasHelp(t *testing.T) {
	for _, cmd := range Commands("") {
		out, errs, err := execute(t, "", cmd.Name(), "--help")
		if err != nil || errs != "" || !strings.Contains(out, "Usage:") || cmd.Short == "" {
			t.Errorf("podstead %s --help: %v %s\n%s", cmd.Name(), err, errs, out)
		}
		if cmd.Flags().Lookup("api-socket") == nil && cmd.PersistentFlags().Lookup("api-socket") == nil && !cmd.HasSubCommands() {
			t.Errorf("podstead %s has no --api-socket", cmd.Name())
		}
	}
}

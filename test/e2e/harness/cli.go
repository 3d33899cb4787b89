package harness

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Finding is one finding in the JSON output of podstead check.
type Finding struct{ Check, Level, Message, Fix string }

// Check runs podstead check and returns its findings by the name of the check.
func (n *Node) Check(status int, args ...string) map[string]Finding {
	n.T.Helper()
	var report struct {
		Findings []Finding
		Failed   int
	}
	// A check does not wait for a runtime that is slow.
	n.Await(fmt.Sprintf("podstead check %q exits with %d", args, status), func() error {
		out, errs, got := n.Podstead(append([]string{"check", "-o", "json"}, args...)...)
		report.Findings, report.Failed = nil, 0
		if err := json.Unmarshal([]byte(out), &report); err != nil || got != status || (report.Failed > 0) != (status == 1) {
			return fmt.Errorf("exit code %d (%v): %s%s", got, err, out, errs)
		}
		return nil
	})
	found := map[string]Finding{}
	for _, f := range report.Findings {
		// Of several findings of a check, keep the first of the worst.
		worse := []string{"ok", "warn", "fail"}
		if before, ok := found[f.Check]; !ok || slices.Index(worse, f.Level) > slices.Index(worse, before.Level) {
			found[f.Check] = f
		}
	}
	return found
}

// HealthyFailures is how many failures podstead check finds on a host on which pods run: one for
// each cgroup controller that is not mounted and without which limits cannot be enforced.
func HealthyFailures(t *testing.T) (count int) {
	unmounted := UnmountedControllers(t)
	for _, name := range []string{"memory", "cpu"} {
		if slices.Contains(unmounted, name) {
			count++
		}
	}
	return count
}

// HealthyStatus is the exit status of podstead check on such a host.
func HealthyStatus(t *testing.T) int { return min(HealthyFailures(t), 1) }

// Podstead runs a command of the program until it exits.
func (n *Node) Podstead(args ...string) (stdout, stderr string, status int) {
	n.T.Helper()
	cmd := n.Command(args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if _, ended := err.(*exec.ExitError); err != nil && !ended {
		n.T.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// CLI runs a command against the node's daemon and checks its exit code and that the output
// contains each word.
func (n *Node) CLI(status int, words []string, args ...string) string {
	n.T.Helper()
	out, errs, got := n.Podstead(append(args, "--api-socket", n.Socket())...)
	if got != status {
		n.T.Errorf("podstead %s exited with %d, want %d:\n%s%s", strings.Join(args, " "), got, status, out, errs)
	}
	for _, w := range words {
		if !strings.Contains(out+errs, w) {
			n.T.Errorf("podstead %s: no %q in:\n%s%s", strings.Join(args, " "), w, out, errs)
		}
	}
	return out
}

// Configz returns the configuration that the daemon reports.
func (n *Node) Configz() map[string]any {
	n.T.Helper()
	body, err := n.Get(n.T.Context(), "/configz")
	if err != nil {
		n.T.Fatal(err)
	}
	var response struct {
		Config map[string]any `json:"kubeletconfig"`
	}
	if err := json.Unmarshal(body, &response); err != nil {
		n.T.Fatal(err)
	}
	return response.Config
}

// AwaitStatusLine waits until podstead status prints the words and exits with the code.
func (n *Node) AwaitStatusLine(code int, words ...string) {
	n.T.Helper()
	n.Await(fmt.Sprintf("podstead status exits with %d and contains %q", code, words), func() error {
		out, errs, got := n.Podstead("status", "--api-socket", n.Socket())
		for _, w := range words {
			if !strings.Contains(strings.Join(strings.Fields(out), " "), w) {
				return fmt.Errorf("no %q in %s%s", w, out, errs)
			}
		}
		if got != code {
			return fmt.Errorf("exit code %d:\n%s%s", got, out, errs)
		}
		return nil
	})
}

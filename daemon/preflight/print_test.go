package preflight

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/podstead/podstead/cli/terminal"
)

func TestPrint(t *testing.T) {
	list := []Finding{
		{Group: "runtime", Check: "runtime", Level: OK, Message: "it responds"},
		{Group: "network", Check: "dns", Level: Fail, Message: "no <server>", Fix: "echo a && b", Repair: "echo a && b"},
		{Group: "kernel", Check: "swap", Level: Warn, Message: "on"},
		{Group: "kernel", Check: "cgroups", Level: Fail, Message: "read-only", Fix: "mount", Repair: "mount", Repaired: true},
	}
	var text, out bytes.Buffer
	if err := Print(&text, list, ""); err != nil {
		t.Fatal(err)
	}
	want := `Runtime
ok    runtime  it responds

Network
fail  dns      no <server>
               fix: echo a && b

Kernel
warn  swap     on
fail  cgroups  read-only
               fix, which was run and did not help: mount

2 failed, 1 warning, 1 ok
podstead check --fix runs the fixes that need no decision, here of 1 problem
`
	if text.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &text, want)
	}
	if err := Print(&out, list, "json"); err != nil {
		t.Fatal(err)
	}
	var report struct {
		Findings       []Finding
		Failed, Warned int
	}
	if err := json.Unmarshal(out.Bytes(), &report); err != nil || report.Failed != 2 || report.Warned != 1 ||
		len(report.Findings) != 4 || report.Findings[1] != list[1] {
		t.Errorf("%v: %s", err, &out)
	}
	if !strings.Contains(out.String(), "a && b") {
		t.Errorf("a command cannot be copied out of %s", &out)
	}
}

// On a terminal no message is wider than it, and commands are one line.
func TestPrintFitsTheTerminal(t *testing.T) {
	const command = "printf '%s\\n' vm.overcommit_memory=1 kernel.panic_on_oops=1 >>/etc/sysctl.d/90-podstead.conf"
	list := []Finding{{Group: "kernel", Check: "kernel-settings", Level: Warn, Fix: command,
		Message: strings.Repeat("memory allocations can fail although memory is free ", 4)}}
	got := text(list, terminal.Terminal{Width: 80, Colored: true})
	if !strings.Contains(got, "fix: "+command+"\n") || !strings.Contains(got, "\x1b[33mwarn\x1b[0m  kernel-settings  memory") {
		t.Errorf("got\n%s", got)
	}
	for line := range strings.Lines(strings.ReplaceAll(got, "\x1b[33mwarn\x1b[0m", "warn")) {
		if len(strings.TrimRight(line, "\n")) > 80 && !strings.Contains(line, "fix:") {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
}

// Each check is in one group, and a group is in one piece.
func TestGroups(t *testing.T) {
	b := newTestHost(t)
	of, last, done := map[string]string{}, "", map[string]bool{}
	for _, f := range Run(b.host, b.settings) {
		if group, known := of[f.Check]; known && group != f.Group || f.Group == "" {
			t.Errorf("%s is in the groups %q and %q", f.Check, group, f.Group)
		}
		of[f.Check] = f.Group
		if f.Group != last && done[f.Group] {
			t.Errorf("the group %s is in two pieces", f.Group)
		}
		last, done[f.Group] = f.Group, true
	}
}

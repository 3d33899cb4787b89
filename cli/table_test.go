package cli

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cli/objects"
	"github.com/podstead/podstead/cli/output"
	"github.com/podstead/podstead/cli/terminal"
)

// wideTable is the table of get pods -o wide.
func wideTable(t *testing.T) terminal.Table {
	t.Helper()
	l := &objects.List{}
	for _, p := range samples() {
		l.Objects = append(l.Objects, objectOf(t, p))
	}
	table, err := output.Format{Name: "wide"}.Table(objects.PodKind(), l, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// A table fits the terminal: names are complete, and the last column is wrapped or
// shortened.
func TestTablesFitATerminal(t *testing.T) {
	full := wideTable(t).Text(terminal.Terminal{})
	if !strings.Contains(full, "b ended with code 137 (OOMKilled)") {
		t.Fatalf("output to a pipe is shortened:\n%s", full)
	}
	for _, width := range []int{60, 80, 100, 120, 200} {
		text := wideTable(t).Text(terminal.Terminal{Width: width})
		for _, line := range strings.Split(text, "\n") {
			if n := utf8.RuneCountInString(line); n > width && width >= 80 {
				t.Errorf("%d cells at width %d: %s", n, width, line)
			}
		}
		for _, p := range samples() {
			if !strings.Contains(text, p.Name+" ") {
				t.Errorf("at width %d the name %s is shortened:\n%s", width, p.Name, text)
			}
		}
	}
	golden(t, "pods-wide-120.txt", wideTable(t).Text(terminal.Terminal{Width: 120}))
	golden(t, "pods-wide-80.txt", wideTable(t).Text(terminal.Terminal{Width: 80}))
}

func TestColors(t *testing.T) {
	plain, colored := wideTable(t).Text(terminal.Terminal{}), wideTable(t).Text(terminal.Terminal{Colored: true})
	if strings.Contains(plain, "\x1b") || !strings.Contains(colored, "\x1b[31mCrashLoopBackOff\x1b[0m") ||
		!strings.Contains(colored, "\x1b[32mRunning\x1b[0m") {
		t.Errorf("without colors:\n%q\nwith colors:\n%q", plain, colored)
	}
	for _, code := range []string{"31", "32", "33"} {
		colored = strings.ReplaceAll(colored, "\x1b["+code+"m", "")
	}
	if colored = strings.ReplaceAll(colored, "\x1b[0m", ""); colored != plain {
		t.Errorf("colors change the layout:\n%s\n%s", colored, plain)
	}
}

func objectOf(t *testing.T, p v1.Pod) *objects.Object {
	t.Helper()
	o, err := objects.NewObject(encode(t, p))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

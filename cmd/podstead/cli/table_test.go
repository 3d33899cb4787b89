package cli

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"
)

// wideTable is that of get pods -o wide, with ages that do not change.
func wideTable(t *testing.T) table {
	t.Helper()
	l := &listing{}
	for _, p := range samples() {
		l.objects = append(l.objects, objectOf(t, p))
	}
	table, err := form{name: "wide"}.tableOf(podKind(), l, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// Tables fit a terminal: names are whole, and the last column is broken into
// lines or cut.
func TestTablesFitATerminal(t *testing.T) {
	full := wideTable(t).text(screen{})
	if !strings.Contains(full, "b ended with code 137 (OOMKilled)") {
		t.Fatalf("a pipe gets all:\n%s", full)
	}
	for _, width := range []int{60, 80, 100, 120, 200} {
		text := wideTable(t).text(screen{width: width})
		for _, line := range strings.Split(text, "\n") {
			if n := utf8.RuneCountInString(line); n > width && width >= 80 {
				t.Errorf("%d cells of %d: %s", n, width, line)
			}
		}
		for _, p := range samples() {
			if !strings.Contains(text, p.Name+" ") {
				t.Errorf("at %d cells the name %s is cut:\n%s", width, p.Name, text)
			}
		}
	}
	golden(t, "pods-wide-120.txt", wideTable(t).text(screen{width: 120}))
	golden(t, "pods-wide-80.txt", wideTable(t).text(screen{width: 80}))
}

func TestColours(t *testing.T) {
	plain, coloured := wideTable(t).text(screen{}), wideTable(t).text(screen{colour: true})
	if strings.Contains(plain, "\x1b") || !strings.Contains(coloured, "\x1b[31mCrashLoopBackOff\x1b[0m") || !strings.Contains(coloured, "\x1b[32mRunning\x1b[0m") {
		t.Errorf("without colour:\n%q\nwith:\n%q", plain, coloured)
	}
	for _, code := range []string{"31", "32", "33"} {
		coloured = strings.ReplaceAll(coloured, "\x1b["+code+"m", "")
	}
	if coloured = strings.ReplaceAll(coloured, "\x1b[0m", ""); coloured != plain {
		t.Errorf("colours move columns:\n%s\n%s", coloured, plain)
	}
}

// What a container says does not steer the terminal.
func TestTablesShowControlCharacters(t *testing.T) {
	text := table{head: []string{"NAME", "MESSAGE"}, rows: [][]string{{"a", "\x1b[31mred\r"}}}.text(screen{colour: true})
	if strings.ContainsAny(text, "\x1b\r") {
		t.Errorf("%q", text)
	}
}

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		text string
		want string
	}{
		{"one two three", "one two|three"},
		{"abcdefghijklmnopqrs", "abcdefghij|klmnopqrs"},
		{"ab abcdefghijkl", "ab|abcdefghij|kl"},
		{"", ""},
	} {
		if got := strings.Join(wrap(c.text, 10), "|"); got != c.want {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
	}
}

func TestHues(t *testing.T) {
	for state, want := range map[string]hue{"Running": hueGood, "Init:1/2": hueBusy, "Init:Error": hueBad, "CrashLoopBackOff": hueBad, "Normal": "", "Warning": hueBad} {
		if got := hueOf(state); got != want {
			t.Errorf("%s: %q, want %q", state, got, want)
		}
	}
}

func objectOf(t *testing.T, p v1.Pod) *object {
	t.Helper()
	o, err := newObject(encode(t, p))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

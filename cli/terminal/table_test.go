package terminal

import (
	"strings"
	"testing"
)

// Output of a container must not control the terminal.
func TestTablesShowControlCharacters(t *testing.T) {
	text := Table{Header: []string{"NAME", "MESSAGE"},
		Rows: [][]string{{"a", "\x1b[31mred\r"}}}.Text(Terminal{Colored: true})
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
		if got := strings.Join(Wrap(c.text, 10), "|"); got != c.want {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
	}
}

func TestStateColor(t *testing.T) {
	for state, want := range map[string]Color{"Running": Green, "Init:1/2": Yellow, "Init:Error": Red,
		"CrashLoopBackOff": Red, "Normal": "", "Warning": Red} {
		if got := StateColor(state); got != want {
			t.Errorf("%s: %q, want %q", state, got, want)
		}
	}
}

func TestVisible(t *testing.T) {
	for text, want := range map[string]string{
		"plain\ttext\n": "plain\ttext\n", "größe ✓": "größe ✓", "\x1b[31mred\r": "^[[31mred^M", "\u009b2J": "^[2J",
		"\x9b2J": `\x9b2J`, "a\xff": `a\xff`, "gnp.\u202etxt": `gnp.\u202etxt`,
	} {
		if got := Visible(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

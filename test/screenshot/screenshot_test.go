package screenshot

import (
	"strings"
	"testing"
)

// What SVG draws, Text reads back: without styles and without what the terminal erased.
func TestTextIsWhatTheTerminalShows(t *testing.T) {
	output := "$ a <b> & c\r\nNAME   \x1b[32mRunning\x1b[0m  \r\n\r\n\r\x1b[Kwaiting (1s)\r\x1b[K\x1b[31mfault:\x1b[0m " +
		"é\r\n"
	want := "$ a <b> & c\nNAME   Running\n\nfault: é\n"
	if got := Plain(output); got != want {
		t.Errorf("Plain: %q, want %q", got, want)
	}
	svg := SVG("a title", output)
	got, err := Text(svg)
	if err != nil || got != want {
		t.Errorf("Text: %q, %v, want %q\n%s", got, err, want, svg)
	}
	for _, part := range []string{`fill="` + fills["32"] + `">Running`, `fill="` + fills["31"] + `">fault:`,
		"<title>a title</title>"} {
		if !strings.Contains(string(svg), part) {
			t.Errorf("no %s in\n%s", part, svg)
		}
	}
}

// An image that is no XML is an error.
func TestTextRejectsOtherFiles(t *testing.T) {
	if got, err := Text([]byte("<svg><text>a")); err == nil {
		t.Errorf("the text is %q", got)
	}
}

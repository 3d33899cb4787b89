package terminal

import (
	"io"
	"os"

	"golang.org/x/term"
)

// Terminal describes where output goes. The zero Terminal is a file or a pipe: nothing is
// shortened or colored.
type Terminal struct {
	// Width is the width in cells, 0 without a terminal.
	Width int
	// Colored reports that the terminal shows colors and that the user has not
	// disabled them.
	Colored bool
}

// Detect returns the Terminal that w writes to.
func Detect(w io.Writer) Terminal {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return Terminal{}
	}
	var t Terminal
	if width, _, err := term.GetSize(int(f.Fd())); err == nil {
		t.Width = width
	}
	// https://no-color.org: any value except the empty one disables colors.
	t.Colored = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return t
}

// Color is the color of a text; empty is the terminal's default.
type Color string

// Colors of the terminal's own palette.
const (
	Green  Color = "32"
	Yellow Color = "33"
	Red    Color = "31"
)

// Paint returns the text in a color.
func (t Terminal) Paint(text string, c Color) string {
	if !t.Colored || c == "" || text == "" {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}

// StateColor returns the color of a value of a STATUS, TYPE or STATE column.
func StateColor(state string) Color {
	switch state {
	case "Running", "Ready", "Completed", "Active", "Succeeded", "True", "used", "wanted", "Bound":
		return Green
	case "Normal", "<none>", "":
		return ""
	case "Pending", "Waiting", "ContainerCreating", "PodInitializing", "ImageArchiveLoading", "DependencyNotReady",
		"Terminating", "WaitingForDependents", "NotReady", "Unknown":
		return Yellow
	}
	if len(state) > 5 && state[:5] == "Init:" && state[5] >= '0' && state[5] <= '9' {
		return Yellow
	}
	return Red
}

package terminal

import (
	"io"
	"os"

	"golang.org/x/term"
)

// screen is where output goes, as far as its look depends on that. The zero
// screen is a file or a pipe: nothing is shortened and nothing has a colour.
type Terminal struct {
	// width is that of the terminal in cells, 0 if there is none.
	Width int
	// colour says that the terminal shows colours, and that nobody refused them.
	Colored bool
}

// screenOf tells what w is.
func Detect(w io.Writer) Terminal {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return Terminal{}
	}
	var s Terminal
	if width, _, err := term.GetSize(int(f.Fd())); err == nil {
		s.Width = width
	}
	// https://no-color.org: any value that is not empty.
	s.Colored = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return s
}

// hue is the colour of a text; none is that of the terminal.
type Color string

// The hues, as the terminal's own palette has them.
const (
	Green  Color = "32"
	Yellow Color = "33"
	Red    Color = "31"
)

// paint gives a text a hue.
func (s Terminal) Paint(text string, h Color) string {
	if !s.Colored || h == "" || text == "" {
		return text
	}
	return "\x1b[" + string(h) + "m" + text + "\x1b[0m"
}

// hueOf is the hue of a word of a STATUS, TYPE or FOR column.
func StateColor(state string) Color {
	switch state {
	case "Running", "Ready", "Completed", "Active", "Succeeded", "True", "used", "wanted":
		return Green
	case "Normal", "<none>", "":
		return ""
	case "Pending", "ContainerCreating", "PodInitializing", "Terminating", "NotReady", "Unknown":
		return Yellow
	}
	if len(state) > 5 && state[:5] == "Init:" && state[5] >= '0' && state[5] <= '9' {
		return Yellow
	}
	return Red
}

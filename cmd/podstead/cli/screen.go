package cli

import (
	"io"
	"os"

	"golang.org/x/term"
)

// screen is where output goes, as far as its look depends on that. The zero
// screen is a file or a pipe: nothing is shortened and nothing has a colour.
type screen struct {
	// width is that of the terminal in cells, 0 if there is none.
	width int
	// colour says that the terminal shows colours, and that nobody refused them.
	colour bool
}

// screenOf tells what w is.
func screenOf(w io.Writer) screen {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return screen{}
	}
	var s screen
	if width, _, err := term.GetSize(int(f.Fd())); err == nil {
		s.width = width
	}
	// https://no-color.org: any value that is not empty.
	s.colour = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return s
}

// hue is the colour of a text; none is that of the terminal.
type hue string

// The hues, as the terminal's own palette has them.
const (
	hueGood hue = "32"
	hueBusy hue = "33"
	hueBad  hue = "31"
)

// paint gives a text a hue.
func (s screen) paint(text string, h hue) string {
	if !s.colour || h == "" || text == "" {
		return text
	}
	return "\x1b[" + string(h) + "m" + text + "\x1b[0m"
}

// hueOf is the hue of a word of a STATUS, TYPE or FOR column.
func hueOf(state string) hue {
	switch state {
	case "Running", "Ready", "Completed", "Active", "Succeeded", "True", "used", "wanted":
		return hueGood
	case "Normal", "<none>", "":
		return ""
	case "Pending", "ContainerCreating", "PodInitializing", "Terminating", "NotReady", "Unknown":
		return hueBusy
	}
	if len(state) > 5 && state[:5] == "Init:" && state[5] >= '0' && state[5] <= '9' {
		return hueBusy
	}
	return hueBad
}

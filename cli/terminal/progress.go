package terminal

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// Progress shows what a command waits for: on a terminal in one line that is redrawn,
// otherwise in one line per change. It is safe for concurrent use.
type Progress struct {
	out      io.Writer
	terminal Terminal
	started  time.Time

	mu    sync.Mutex
	text  string
	shown bool
	// detail is what followed the last colon-separated state that was printed as a line.
	detail string
}

// NewProgress returns a Progress that starts now.
func NewProgress(out io.Writer) *Progress {
	return &Progress{out: out, terminal: Detect(out), started: time.Now()}
}

// Show shows a new text.
func (p *Progress) Show(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text = Visible(text)
	if text == p.text {
		return
	}
	p.text = text
	if p.terminal.Width == 0 {
		// A long error of a registry comes with each state of its pull: once is enough.
		head, detail, _ := strings.Cut(text, "): ")
		if detail != "" && detail == p.detail {
			text = head + ")"
		}
		p.detail = detail
		fmt.Fprintf(p.out, "%s (%s)\n", text, p.elapsed())
		return
	}
	p.draw()
}

// Repeat makes Show print the next text in full, also if it is the same: a long silence would not tell whether
// something is still wrong.
func (p *Progress) Repeat() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text, p.detail = "", ""
}

// Tick updates the elapsed time.
func (p *Progress) Tick() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.terminal.Width > 0 && p.text != "" {
		p.draw()
	}
}

// Println prints a separate line.
func (p *Progress) Println(text string) {
	p.Clear()
	fmt.Fprintln(p.out, text)
}

// draw replaces the line. The caller holds mu.
func (p *Progress) draw() {
	time := fmt.Sprintf(" (%s)", p.elapsed())
	fmt.Fprint(p.out, "\r\x1b[K"+truncate(p.text, max(minColumnWidth, p.terminal.Width-len(time)-1))+time)
	p.shown = true
}

// Clear removes the line.
func (p *Progress) Clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.shown = false
	}
}

func (p *Progress) elapsed() time.Duration { return time.Since(p.started).Truncate(time.Second) }

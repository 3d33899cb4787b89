package terminal

import (
	"cmp"
	"fmt"
	"io"
	"sync"
	"time"
)

// progress tells what is waited for: on a terminal in one line that moves,
// elsewhere in a line for each change.
type Progress struct {
	out      io.Writer
	terminal Terminal
	began    time.Time

	mu    sync.Mutex
	text  string
	shown bool
}

func NewProgress(out io.Writer) *Progress {
	return &Progress{out: out, terminal: Detect(out), began: time.Now()}
}

// show tells a new text.
func (p *Progress) Show(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text = Visible(text)
	if text == p.text {
		return
	}
	p.text = text
	if p.terminal.Width == 0 {
		fmt.Fprintf(p.out, "%s (%s)\n", text, p.elapsed())
		return
	}
	p.draw()
}

// tick moves the time on.
func (p *Progress) Tick() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.terminal.Width > 0 && p.text != "" {
		p.draw()
	}
}

// say tells something apart from the progress.
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

// clear takes the line away.
func (p *Progress) Clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.shown = false
	}
}

// last is the newest text, or what stands for it.
func (p *Progress) Last(otherwise string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return cmp.Or(p.text, otherwise)
}

func (p *Progress) elapsed() time.Duration { return time.Since(p.began).Truncate(time.Second) }

package cli

import (
	"cmp"
	"fmt"
	"io"
	"sync"
	"time"
)

// progress tells what is waited for: on a terminal in one line that moves,
// elsewhere in a line for each change.
type progress struct {
	out    io.Writer
	screen screen
	began  time.Time

	mu    sync.Mutex
	text  string
	shown bool
}

func newProgress(out io.Writer) *progress {
	return &progress{out: out, screen: screenOf(out), began: time.Now()}
}

// show tells a new text.
func (p *progress) show(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text = visible(text)
	if text == p.text {
		return
	}
	p.text = text
	if p.screen.width == 0 {
		fmt.Fprintf(p.out, "%s (%s)\n", text, p.elapsed())
		return
	}
	p.draw()
}

// tick moves the time on.
func (p *progress) tick() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.screen.width > 0 && p.text != "" {
		p.draw()
	}
}

// say tells something apart from the progress.
func (p *progress) say(text string) {
	p.clear()
	fmt.Fprintln(p.out, text)
}

// draw replaces the line. The caller holds mu.
func (p *progress) draw() {
	time := fmt.Sprintf(" (%s)", p.elapsed())
	fmt.Fprint(p.out, "\r\x1b[K"+cut(p.text, max(narrowest, p.screen.width-len(time)-1))+time)
	p.shown = true
}

// clear takes the line away.
func (p *progress) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.shown = false
	}
}

// last is the newest text, or what stands for it.
func (p *progress) last(otherwise string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return cmp.Or(p.text, otherwise)
}

func (p *progress) elapsed() time.Duration { return time.Since(p.began).Truncate(time.Second) }

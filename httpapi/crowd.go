package httpapi

import (
	"net"
	"net/http"
	"runtime"
	"runtime/debug"
	"sync"
	"time"
)

const (
	// crowdSize is how many more connections than before make a crowd.
	crowdSize = 100
	// crowdCalm is how long nobody may have come for all of it to be there.
	crowdCalm = 3 * time.Second
)

// crowd has memory given back after many clients came at once: each handshake
// leaves garbage and a stack that has grown, and a daemon that is idle from then
// on would keep both until the collector happens to run.
type crowd struct {
	giveBack func()

	mu sync.Mutex
	// open are the connections now, counted the fewest since memory was last
	// given back.
	open, counted int
	calm          *time.Timer
}

func newCrowd(giveBack func()) *crowd { return &crowd{giveBack: giveBack} }

// changed is the ConnState of a server.
func (c *crowd) changed(_ net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateNew:
		c.open++
	case http.StateClosed, http.StateHijacked:
		c.open--
		c.counted = min(c.counted, c.open)
	}
	if state != http.StateNew || c.open-c.counted < crowdSize {
		return
	}
	if c.calm == nil {
		c.calm = time.AfterFunc(crowdCalm, c.here)
		return
	}
	c.calm.Reset(crowdCalm)
}

func (c *crowd) here() {
	c.mu.Lock()
	c.counted, c.calm = c.open, nil
	c.mu.Unlock()
	c.giveBack()
}

// giveMemoryBack collects twice: each time a stack of which little is used is
// halved.
func giveMemoryBack() {
	runtime.GC()
	debug.FreeOSMemory()
}

package streaming

import (
	"io"

	"github.com/podstead/podstead/internal/spdy"
)

// The limits of all sessions together. They are the process's own, because all sessions use its
// memory and its threads, whichever listener they came from.
const (
	// maxUnread is the number of bytes that all sessions may keep because a client, a
	// container or a runtime does not read them; each connection may keep 32 KiB more.
	maxUnread = 32 << 20
	// maxForwardedTotal is the maximum number of forwarded connections. Each costs about
	// 40 KiB.
	maxForwardedTotal = 1024
	// maxDialing is the maximum number of connections being made to ports of pods. Each
	// has a thread, and a pod that does not answer keeps it for dialTimeout.
	maxDialing = 32
)

var (
	unread    = spdy.NewBudget(maxUnread)
	forwarded = make(chan struct{}, maxForwardedTotal)
	dialing   = make(chan struct{}, maxDialing)
)

// chunks returns a function that reads the next bytes of a stream. It uses a buffer only for
// streams that have none themselves.
func chunks(from io.Reader, size int) func() ([]byte, error) {
	if s, ok := from.(interface{ Next() ([]byte, error) }); ok {
		return s.Next
	}
	buffer := make([]byte, size)
	return func() ([]byte, error) {
		n, err := from.Read(buffer)
		return buffer[:n], err
	}
}

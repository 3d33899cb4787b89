package streaming

import (
	"context"
	"fmt"
	"io"

	"github.com/podstead/podstead/internal/spdy"
)

// The limits of all sessions together. They are the process's own, because all sessions use its
// memory and its threads, whichever listener they came from.
const (
	// maxUnread is the number of bytes that all sessions may keep because a client, a
	// container or a runtime does not read them; each connection may keep 32 KiB more.
	maxUnread = 32 << 20
	// maxForwardedTotal is the maximum number of forwarded connections, without those of
	// local clients and the first ones of each session. Each costs about 40 KiB.
	maxForwardedTotal = 1024
	// ownForwarded is how many connections a session always has, so that sessions with many
	// connections do not stop others.
	ownForwarded = 4
	// maxDialing is the maximum number of connections being made to ports of pods, without
	// those of local clients and one of each session. Each has a thread, and a pod that does
	// not respond keeps it for dialTimeout.
	maxDialing = 32
	// ownDialing is how many connections a session can always be making, so that sessions
	// with pods that do not respond do not stop others.
	ownDialing = 1
	// maxSessionDialing is the maximum of one session.
	maxSessionDialing = 4
)

var (
	unread    = spdy.NewBudget(maxUnread)
	forwarded = make(chan struct{}, maxForwardedTotal)
	dialing   = make(chan struct{}, maxDialing)
)

// awaitDial waits for one of the slots for connections being made, of the session's own or of
// all sessions, but not longer than such a connection may take. It returns where the slot was
// taken.
func awaitDial(ctx context.Context, own, total chan struct{}) (taken chan struct{}, err error) {
	waiting, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	select {
	case own <- struct{}{}:
		return own, nil
	default:
	}
	select {
	case own <- struct{}{}:
		return own, nil
	case total <- struct{}{}:
		return total, nil
	case <-waiting.Done():
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return nil, fmt.Errorf("too many connections are being made to pods: %d have not ended within %v", cap(own)+cap(total),
		dialTimeout)
}

// ownDialsKey is the key, in the context of a session, of its own slots for connections being
// made.
type ownDialsKey struct{}

// localKey marks the context of a session of a local client.
type localKey struct{}

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

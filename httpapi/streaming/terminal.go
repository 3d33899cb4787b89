package streaming

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/podstead/podstead/internal/spdy"
)

const (
	// chunk is what is read at once of a stream.
	chunk = 32 << 10
	// stallCheck is how often a side is asked whether it is still there while
	// it waits.
	stallCheck = 5 * time.Second
	// endTimeout is how long a client may take to read how it ended.
	endTimeout = 10 * time.Second
	// maxStatus bounds what a runtime tells of an end.
	maxStatus = 1 << 20
)

// Terminal is one exec or attach.
type Terminal struct {
	// Client are the streams that the client asked for, Runtime those that the
	// runtime was asked for.
	Client, Runtime Options
	// Open asks the runtime for the address of the session. Its errors are for
	// the client.
	Open func(context.Context) (address string, err error)
	// Idle ends a session in which nothing moved for so long; 0 never.
	Idle time.Duration
	// stall stands for stallCheck in tests.
	stall time.Duration
}

// Serve answers a request for a terminal, and returns when the session is over
// and everything of it has ended.
// The error says why it was ended early: the client left, nothing moved, or the
// request's context ended. What becomes of the command then is up to the
// runtime: containerd 2.4 kills it, containerd 1.6 leaves it running.
func (t Terminal) Serve(w http.ResponseWriter, r *http.Request) error {
	protocol := ""
	switch {
	case webSocketAsked(r):
	case spdy.Asked(r):
		var err error
		if protocol, err = spdy.Agree(r, protocolV4, protocolV3, protocolV2, protocolV1); err != nil {
			fail(w, failure(http.StatusForbidden, metav1.StatusReasonForbidden, "%v", err))
			return nil
		}
	default:
		fail(w, failure(http.StatusBadRequest, metav1.StatusReasonBadRequest, "this needs a request that asks to become SPDY/3.1 or a WebSocket"))
		return nil
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(errOver)
	// The runtime comes first: what it refuses can be told in plain HTTP.
	address, err := t.Open(ctx)
	if err != nil {
		fail(w, internal("%v", err))
		return nil
	}
	rt, err := dialRuntime(ctx, address, protocolV4)
	if err != nil {
		fail(w, internal("%s", plain(err)))
		return nil
	}
	defer rt.Abort()
	var c client
	if protocol == "" {
		ws, err := acceptWebSocket(w, r, t.Client)
		if err != nil {
			return nil
		}
		c = ws
	} else {
		s, err := acceptSPDY(ctx, w, protocol, t.Client)
		if err != nil {
			return nil // nothing was begun
		}
		c = s
	}
	j := &joint{ctx: ctx, cancel: cancel, client: c, runtime: rt, idle: t.Idle, stall: cmp.Or(t.stall, stallCheck)}
	return j.run(t.Runtime)
}

// joint is a session whose sides are both there.
type joint struct {
	ctx     context.Context
	cancel  context.CancelCauseFunc
	client  client
	runtime *spdy.Conn
	idle    time.Duration
	stall   time.Duration
	timer   *time.Timer
}

// run carries the streams until the runtime has told the end.
func (j *joint) run(o Options) error {
	if j.idle > 0 {
		j.timer = time.AfterFunc(j.idle, func() { j.cancel(errIdle) })
		defer j.timer.Stop()
	}
	var all sync.WaitGroup
	defer all.Wait()
	defer j.cancel(errOver)
	all.Go(func() {
		select {
		case <-j.client.gone():
			j.cancel(errGone)
		case <-j.ctx.Done():
		}
	})
	// Whatever ends the session ends the calls that wait for either side.
	stop := context.AfterFunc(j.ctx, func() {
		j.runtime.Abort()
		if errors.Is(context.Cause(j.ctx), errGone) {
			j.client.abort()
			return
		}
		// It may still take the news of the end.
		time.AfterFunc(endTimeout, j.client.abort)
	})
	status, err := j.carry(o, &all)
	cause := context.Cause(j.ctx)
	stop()
	switch {
	case errors.Is(cause, errGone):
		j.client.abort()
		return cause
	case errors.Is(cause, context.Canceled):
		status = failure(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "podstead ends; the command runs on")
	case cause != nil:
		status = failure(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "podstead ended the session: %v", cause)
	case err != nil:
		status = internal("cannot begin the session with the container runtime: %v", err)
	}
	// The runtime takes nothing any more, so that what the client still sends
	// has nowhere to wait.
	j.runtime.Abort()
	j.client.end(status)
	return cause
}

// carry opens the runtime's streams and returns the status that it tells at the
// end, when all before that was given to the client. What goes the other way
// may still wait.
func (j *joint) carry(o Options, all *sync.WaitGroup) (*metav1.Status, error) {
	streams := map[string]httpstream.Stream{}
	names := append([]string{v1.StreamTypeError}, o.wants()...)
	if o.TTY {
		names = append(names, v1.StreamTypeResize)
	}
	for _, name := range names {
		s, err := j.runtime.Open(v1.StreamType, name)
		if err != nil {
			return nil, err
		}
		streams[name] = s
	}
	for _, name := range []string{v1.StreamTypeStdin, v1.StreamTypeResize} {
		from, to := j.client.in(name), streams[name]
		switch {
		case from != nil && to != nil:
			all.Go(func() {
				g := newGuard(to, j.client.stalled, func() { j.cancel(errGone) }, j.stall)
				if j.copy(g, from) == nil {
					_ = to.Close() // half of it: the command sees the end
					return
				}
				// What nobody takes must not hide that the client leaves.
				_, _ = io.Copy(io.Discard, from)
			})
		case from != nil:
			all.Go(func() { _, _ = io.Copy(io.Discard, from) })
		case to != nil:
			_ = to.Close()
		}
	}
	var outs sync.WaitGroup
	for _, name := range []string{v1.StreamTypeStdout, v1.StreamTypeStderr} {
		if from, to := streams[name], j.client.out(name); from != nil {
			if to == nil {
				to = io.Discard
			}
			outs.Go(func() {
				if j.copy(to, from) != nil {
					j.cancel(errGone)
				}
			})
		}
	}
	// The runtime tells the end when the command's output is written, and then
	// closes, which ends the others.
	text, err := io.ReadAll(io.LimitReader(streams[v1.StreamTypeError], maxStatus))
	outs.Wait()
	return runtimeStatus(text, err), nil
}

// copy is io.Copy in chunks that count as movement. Its error is that of the
// writing: a reading that fails means the same as an end, but is passed on so
// that no half of input is taken for the whole.
func (j *joint) copy(to io.Writer, from io.Reader) error {
	buffer := make([]byte, chunk)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return err
			}
			if j.timer != nil {
				j.timer.Reset(j.idle)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("cannot read on: %w", err)
		}
	}
}

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

	"github.com/podstead/podstead/httpapi/apistatus"
	"github.com/podstead/podstead/internal/spdy"
)

const (
	// chunkSize is the size in bytes of one read from a stream.
	chunkSize = 16 << 10
	// resizeSize is the size in bytes of one read of the sizes of a terminal.
	resizeSize = 512
	// stallCheckInterval is the interval at which a side is checked while a write to
	// the other one blocks.
	stallCheckInterval = 5 * time.Second
	// endTimeout is the limit for a client to read the final status.
	endTimeout = 10 * time.Second
	// maxStatus is the maximum size in bytes of a runtime's final status.
	maxStatus = 64 << 10
)

// RemoteCommand serves one exec or attach.
type RemoteCommand struct {
	// Client are the streams that the client requested, Runtime those that the
	// runtime is asked for.
	Client, Runtime Options
	// Open asks the runtime for the URL of the session. Its errors are sent to the
	// client.
	Open func(context.Context) (url string, err error)
	// Idle ends a session without traffic after this time; 0 means never.
	Idle time.Duration
	// stallCheck replaces stallCheckInterval in tests.
	stallCheck time.Duration
}

// Serve serves an exec or attach request. It returns after the session and all that
// belongs to it have ended. The error reports why the session was ended early: the client
// disconnected, the session was idle, or the request's context ended. What happens to
// the command then is up to the runtime: containerd 2.4 kills it, containerd 1.6 leaves
// it running.
func (t RemoteCommand) Serve(w http.ResponseWriter, r *http.Request) error {
	webSocket, protocol := isWebSocketRequest(r), ""
	switch {
	case webSocket:
		if err := checkWebSocketProtocol(r, webSocketProtocols); err != nil {
			apistatus.Write(w, r, apistatus.New(http.StatusBadRequest, "%v", err))
			return nil
		}
	case spdy.IsUpgradeRequest(r):
		var err error
		if protocol, err = spdy.Negotiate(r, spdyProtocols...); err != nil {
			apistatus.Write(w, r, apistatus.New(http.StatusForbidden, "%v", err))
			return nil
		}
	default:
		apistatus.Write(w, r, apistatus.New(http.StatusBadRequest,
			"upgrade required: send an upgrade request to SPDY/3.1 or WebSocket"))
		return nil
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(errSessionEnded)
	// The runtime comes first: until the upgrade its errors can be served in plain
	// HTTP.
	url, err := t.Open(ctx)
	if err != nil {
		apistatus.Write(w, r, internalError("%v", err))
		return nil
	}
	rt, err := dialRuntime(ctx, url, protocolV4)
	if err != nil {
		apistatus.Write(w, r, internalError("%s", describeRuntimeError(err)))
		return nil
	}
	defer rt.Abort()
	var c client
	if webSocket {
		c, err = acceptWebSocket(w, r, t.Client)
	} else {
		c, err = acceptSPDY(ctx, w, protocol, t.Client)
	}
	if err != nil {
		return nil // the command was not started
	}
	s := &session{ctx: ctx, cancel: cancel, client: c, runtime: rt, idle: t.Idle,
		stallCheck: cmp.Or(t.stallCheck, stallCheckInterval)}
	return s.run(t.Runtime)
}

// session is an exec or attach with both sides connected.
type session struct {
	ctx        context.Context
	cancel     context.CancelCauseFunc
	client     client
	runtime    *spdy.Conn
	idle       time.Duration
	stallCheck time.Duration
	idleTimer  *time.Timer
}

// run copies the streams until the runtime has sent the final status.
func (s *session) run(o Options) error {
	if s.idle > 0 {
		s.idleTimer = time.AfterFunc(s.idle, func() { s.cancel(errIdle) })
		defer s.idleTimer.Stop()
	}
	var copying sync.WaitGroup
	defer copying.Wait()
	defer s.cancel(errSessionEnded)
	copying.Go(func() {
		select {
		case <-s.client.done():
			s.cancel(errClientGone)
		case <-s.ctx.Done():
		}
	})
	// The end of the session, whatever its cause, ends the calls that block on either
	// side.
	stop := context.AfterFunc(s.ctx, func() {
		s.runtime.Abort()
		if errors.Is(context.Cause(s.ctx), errClientGone) {
			s.client.abort()
			return
		}
		// The client may still read the final status.
		time.AfterFunc(endTimeout, s.client.abort)
	})
	status, err := s.copyStreams(o, &copying)
	cause := context.Cause(s.ctx)
	stop()
	switch {
	case errors.Is(cause, errClientGone):
		s.client.abort()
		return cause
	case errors.Is(cause, context.Canceled):
		status = apistatus.New(http.StatusServiceUnavailable, "podstead is shutting down")
	case cause != nil:
		status = apistatus.New(http.StatusServiceUnavailable, "podstead ended the session: %v", cause)
	case err != nil:
		status = internalError("failed to start the session with the container runtime: %v", err)
	}
	// The runtime reads nothing any more. Without this, input that the client still
	// sends would block.
	s.runtime.Abort()
	s.client.end(status)
	return cause
}

// copyStreams opens the runtime's streams and returns the final status after all output
// was sent to the client. Copies of the client's input may still block.
func (s *session) copyStreams(o Options, copying *sync.WaitGroup) (*metav1.Status, error) {
	streams := map[string]httpstream.Stream{}
	names := append([]string{v1.StreamTypeError}, o.streamNames()...)
	if o.TTY {
		names = append(names, v1.StreamTypeResize)
	}
	for _, name := range names {
		stream, err := s.runtime.Open(v1.StreamType, name)
		if err != nil {
			return nil, err
		}
		streams[name] = stream
	}
	s.copyInput(s.client.input(v1.StreamTypeStdin), streams[v1.StreamTypeStdin], chunkSize, copying)
	s.copyInput(s.client.input(v1.StreamTypeResize), streams[v1.StreamTypeResize], resizeSize, copying)
	var outputs sync.WaitGroup
	for _, name := range []string{v1.StreamTypeStdout, v1.StreamTypeStderr} {
		from, to := streams[name], s.client.output(name)
		if from == nil {
			continue
		}
		if to == nil {
			to = io.Discard
		}
		outputs.Go(func() {
			// A runtime that was lost is reported with the status.
			if _, err := s.copy(to, from, chunkSize); err != nil {
				s.cancel(errClientGone)
			}
		})
	}
	// The runtime sends the status after the command's output, and then closes, which
	// ends the other streams.
	text, err := io.ReadAll(io.LimitReader(streams[v1.StreamTypeError], maxStatus))
	outputs.Wait()
	return runtimeStatus(text, err), nil
}

// copyInput copies one stream of the client to the runtime. Either is nil if that side
// does not have it. size is the size in bytes of one read.
func (s *session) copyInput(from io.Reader, to httpstream.Stream, size int, copying *sync.WaitGroup) {
	switch {
	case from != nil && to != nil:
		copying.Go(func() {
			g := newStallGuard(to, s.client.alive, func() { s.cancel(errClientGone) }, s.stallCheck)
			if readErr, err := s.copy(g, from, size); readErr == nil && err == nil {
				_ = to.Close() // half-close: the command sees EOF
				return
			}
			// Input that nothing reads must not hide the client's disconnect.
			_, _ = io.Copy(io.Discard, from)
		})
	case from != nil:
		copying.Go(func() { _, _ = io.Copy(io.Discard, from) })
	case to != nil:
		_ = to.Close()
	}
}

// copy is io.Copy in chunks, each of which resets the idle timer. A failed read is
// an error, not EOF, so that truncated input is not taken for complete input.
func (s *session) copy(to io.Writer, from io.Reader, size int) (readErr, writeErr error) {
	next := chunks(from, size)
	for {
		b, err := next()
		if len(b) > 0 {
			if _, err := to.Write(b); err != nil {
				return nil, err
			}
			if s.idleTimer != nil {
				s.idleTimer.Reset(s.idle)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		if err != nil {
			return fmt.Errorf("failed to read the stream: %w", err), nil
		}
	}
}

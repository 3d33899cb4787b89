package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/podstead/podstead/internal/retry"
)

// The delays between attempts.
const (
	minRetryDelay = 200 * time.Millisecond
	// maxRetryDelay is the longest delay after consecutive failures of one
	// requester, up to a quarter longer or shorter by chance.
	maxRetryDelay = 8 * time.Second
	// maxProbeInterval is the longest time between two probes of an unreachable API
	// server.
	maxProbeInterval = 5 * time.Second
	// quietPeriod is how long the API server must respond before its next failure
	// counts as the first.
	quietPeriod = time.Minute
)

// errUnreachable fails a request that was not sent because the API server is
// unreachable.
var errUnreachable = errors.New("API server unreachable")

// connection is the shared connection to the API server. Once a request gets no
// answer, the others fail at once, except for one probe at a time; the first
// answer to any request admits all again. So an unreachable API server costs a
// few requests a minute, however much there is to report, and all requesters
// notice its return at once.
//
// It logs when the API server stops responding and when it responds again, and
// nothing in between. An unreachable API server is normal: a node may boot before
// its cluster, or run the cluster's control plane itself.
type connection struct {
	log *slog.Logger
	// onReachable is called when the API server responds again.
	onReachable func()
	// conns are closed when no response arrives over them.
	conns trackedConns

	mu        sync.Mutex
	contacted bool
	// unreachable is nil while the API server responds, or nothing is known; it is
	// closed when it responds again.
	unreachable chan struct{}
	// lastErr is why the API server is unreachable.
	lastErr error
	// probeCount counts the probes in a row, nextProbe is the earliest time of the
	// next one.
	probeCount int
	nextProbe  time.Time
	// reachableSince is when the API server responded again, lastResponse when it
	// responded last.
	reachableSince, lastResponse time.Time
}

// wrap sends the requests of a transport over the connection.
func (c *connection) wrap(t http.RoundTripper) http.RoundTripper { return connectedTransport{c, t} }

type connectedTransport struct {
	*connection
	transport http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t connectedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := t.admit(); err != nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, err
	}
	began := time.Now()
	resp, err := t.transport.RoundTrip(r)
	switch {
	case err == nil && isUnavailable(resp.StatusCode) && !isHeldEviction(r, resp):
		t.failed(errors.New(resp.Status))
	case err == nil:
		t.responded()
	case errors.Is(r.Context().Err(), context.Canceled):
	case errors.Is(r.Context().Err(), context.DeadlineExceeded):
		// If other requests were served meanwhile, only this one is slow.
		if t.noResponseSince(began) {
			t.failed(err)
			t.conns.close()
		}
	default:
		t.failed(err)
	}
	return resp, err
}

// noResponseSince reports whether no request was served since then.
func (c *connection) noResponseSince(then time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lastResponse.Before(then)
}

// isUnavailable reports whether an API server, or a proxy in front of it, responds
// with this code if it cannot serve any request.
func isUnavailable(code int) bool {
	switch code {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// isHeldEviction reports whether a disruption budget blocks an eviction: the
// answer is the same as that of an overloaded API server.
func isHeldEviction(r *http.Request, resp *http.Response) bool {
	return resp.StatusCode == http.StatusTooManyRequests && strings.HasSuffix(r.URL.Path, "/eviction")
}

// isAnswer reports whether the API server served a request with this error, and
// so is reachable.
func isResponse(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && !isUnavailable(int(status.Status().Code)) && !apierrors.IsServerTimeout(err)
}

// isOwnError reports whether an error concerns the one request and not the
// connection: a refusal, or a response that cannot be decoded.
func (c *connection) isOwnError(err error) bool {
	if isResponse(err) {
		return true
	}
	for _, noAnswer := range []error{errUnreachable, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, noAnswer) {
			return false
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unreachable == nil
}

// admit admits a request, or fails it because the API server is unreachable.
func (c *connection) admit() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unreachable == nil {
		return nil
	}
	if time.Now().Before(c.nextProbe) {
		return fmt.Errorf("%w: %w", errUnreachable, c.lastErr)
	}
	c.scheduleProbe()
	return nil
}

// scheduleProbe sets the time of the next probe.
func (c *connection) scheduleProbe() {
	c.probeCount++
	c.nextProbe = time.Now().Add(jittered(min(retryDelay(c.probeCount), maxProbeInterval)))
}

func (c *connection) failed(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.contacted, c.lastErr = true, err
	if c.unreachable != nil {
		return
	}
	c.unreachable = make(chan struct{})
	if time.Since(c.reachableSince) > quietPeriod {
		c.probeCount = 0
	}
	c.scheduleProbe()
	c.log.Warn("API server unreachable, retrying; static pods keep running", "err", err)
}

func (c *connection) responded() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastResponse = time.Now()
	if c.unreachable == nil && c.contacted {
		return
	}
	c.log.Info("API server reachable")
	c.contacted = true
	if c.unreachable != nil {
		c.reachableSince = time.Now()
		close(c.unreachable)
		c.unreachable, c.lastErr = nil, nil
		c.onReachable()
	}
}

// retryAfter returns how long requests would fail at once; 0 if they are
// admitted.
func (c *connection) retryAfter() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unreachable == nil {
		return 0
	}
	return max(0, time.Until(c.nextProbe))
}

// backoff waits after a failed request: while the API server is unreachable,
// until it responds again or the next probe is due; otherwise for a delay that
// grows with the number of failures in a row. It returns false if the context
// ended.
func (c *connection) backoff(ctx context.Context, failures int) bool {
	c.mu.Lock()
	reachable, wait := c.unreachable, time.Until(c.nextProbe)
	c.mu.Unlock()
	if reachable == nil {
		return retry.Sleep(ctx, jittered(retryDelay(failures)))
	}
	select {
	case <-reachable:
		return true
	case <-time.After(max(wait, minRetryDelay)):
		return true
	case <-ctx.Done():
		return false
	}
}

// retryDelay returns the delay after a number of failures in a row.
func retryDelay(failures int) time.Duration {
	return retry.Delay(failures, minRetryDelay, maxRetryDelay)
}

// jittered returns a time up to a quarter shorter or longer, so that the nodes of
// a cluster that returns do not all ask at once.
func jittered(d time.Duration) time.Duration { return d - d/4 + rand.N(d/2+1) }

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
)

// The spacing of attempts.
const (
	firstRetry = 200 * time.Millisecond
	// lastRetry, and a quarter more by chance, is how long who asks for its
	// own sake waits at most after failures in a row.
	lastRetry = 8 * time.Second
	// lastProbe is the same for the one request in a time that finds out
	// whether an API server that is away answers again.
	lastProbe = 5 * time.Second
	// calm is how long an API server answers before its next absence counts
	// as the first.
	calm = time.Minute
)

// errAway fails a request that was not made since the API server is away.
var errAway = errors.New("API server is away")

// link is the way to the API server. All requests go over it. Once one gets no
// answer, the others fail at once, but for one in a time that finds out; the
// first answer to anybody lets all through again. So an API server that is away
// costs a few requests a minute, however much there is to tell it, and its return
// is seen by all at once.
//
// It logs when the API server stops answering and when it answers again, and
// nothing in between. One that is away is normal: a box may come up before its
// cluster, or hold the cluster's control plane itself.
type link struct {
	log *slog.Logger
	// returned is called when the API server answers again.
	returned func()
	// connections are closed once nothing is heard over them.
	connections connections

	mu    sync.Mutex
	asked bool
	// away is nil while the API server answers, or nothing is known; it is closed
	// when it answers again.
	away chan struct{}
	// fault is why it is away.
	fault error
	// probes are those made in a row, next is when another one may be made.
	probes int
	next   time.Time
	// since is when it answered again, heard when it answered last.
	since, heard time.Time
}

// over puts the link before a transport.
func (l *link) over(t http.RoundTripper) http.RoundTripper { return linked{l, t} }

type linked struct {
	*link
	transport http.RoundTripper
}

func (l linked) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := l.enter(); err != nil {
		if r.Body != nil {
			r.Body.Close()
		}
		return nil, err
	}
	began := time.Now()
	resp, err := l.transport.RoundTrip(r)
	switch {
	case err == nil && unavailable(resp.StatusCode) && !held(r, resp):
		l.failed(errors.New(resp.Status))
	case err == nil:
		l.answers()
	case errors.Is(r.Context().Err(), context.Canceled):
	case errors.Is(r.Context().Err(), context.DeadlineExceeded):
		// Others that were answered meanwhile say that it is this one's own matter.
		if l.silentSince(began) {
			l.failed(err)
			l.connections.close()
		}
	default:
		l.failed(err)
	}
	return resp, err
}

// silentSince tells whether nobody was answered since then.
func (l *link) silentSince(then time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.heard.Before(then)
}

// unavailable tells the answers that an API server gives, or what stands before
// it, when it cannot answer anybody.
func unavailable(code int) bool {
	switch code {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// held tells an eviction that a disruption budget holds up, which is answered as if
// the API server had too much to do.
func held(r *http.Request, resp *http.Response) bool {
	return resp.StatusCode == http.StatusTooManyRequests && strings.HasSuffix(r.URL.Path, "/eviction")
}

// answered tells a refusal of one request from an API server that is away.
func answered(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && !unavailable(int(status.Status().Code)) && !apierrors.IsServerTimeout(err)
}

// own tells a fault of one request from an API server that is away: a refusal, or
// an answer that makes no sense.
func (l *link) own(err error) bool {
	if answered(err) {
		return true
	}
	for _, silence := range []error{errAway, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, silence) {
			return false
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.away == nil
}

// enter lets a request through, or not.
func (l *link) enter() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.away == nil {
		return nil
	}
	if time.Now().Before(l.next) {
		return fmt.Errorf("%w: %w", errAway, l.fault)
	}
	l.space()
	return nil
}

// space sets the time of the next probe.
func (l *link) space() {
	l.probes++
	l.next = time.Now().Add(jittered(min(retry(l.probes), lastProbe)))
}

func (l *link) failed(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked, l.fault = true, err
	if l.away != nil {
		return
	}
	l.away = make(chan struct{})
	if time.Since(l.since) > calm {
		l.probes = 0
	}
	l.space()
	l.log.Warn("API server is away, it is tried again; pods of files and URLs run on", "error", err)
}

func (l *link) answers() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard = time.Now()
	if l.away == nil && l.asked {
		return
	}
	l.log.Info("API server answers")
	l.asked = true
	if l.away != nil {
		l.since = time.Now()
		close(l.away)
		l.away, l.fault = nil, nil
		l.returned()
	}
}

// closed is how long it makes no sense to ask; 0 asks now.
func (l *link) closed() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.away == nil {
		return 0
	}
	return max(0, time.Until(l.next))
}

// rest waits after a request that failed: until the API server answers again, or
// another one may be tried; if it is not away, as long as so many failures in a
// row ask for. It reports false if the context ended.
func (l *link) rest(ctx context.Context, failures int) bool {
	l.mu.Lock()
	back, wait := l.away, time.Until(l.next)
	l.mu.Unlock()
	if back == nil {
		return sleep(ctx, jittered(retry(failures)))
	}
	select {
	case <-back:
		return true
	case <-time.After(max(wait, firstRetry)):
		return true
	case <-ctx.Done():
		return false
	}
}

// retry is how long to wait after so many failures in a row.
func retry(failures int) time.Duration {
	d := firstRetry
	for range failures - 1 {
		if d *= 2; d >= lastRetry {
			return lastRetry
		}
	}
	return d
}

// jittered is a time up to a quarter shorter or longer: the nodes of a cluster
// that comes back do not ask all at once.
func jittered(d time.Duration) time.Duration { return d - d/4 + rand.N(d/2+1) }

// sleep reports whether the time passed before the context ended.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

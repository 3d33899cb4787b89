package cluster

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// However long the API server was unreachable, the node is up to date in the
// cluster soon after it responds again, and has sent few requests in the
// meantime.
func TestReturnOfAnAPIServer(t *testing.T) {
	for _, absence := range []time.Duration{time.Second, 10 * time.Second, time.Minute, 10 * time.Minute, time.Hour} {
		t.Run(absence.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newClusterHarness(t)
				r.run("web", "one")
				r.start()
				defer r.end()
				pass(10 * time.Second)
				before := r.mirror("web")
				if before == nil || before.Status.Phase != v1.PodRunning {
					t.Fatalf("mirror %+v", before)
				}
				r.setAway(true)
				pass(absence / 2)
				r.run("web", "two")
				pass(absence / 2)
				if asked, most := len(r.requests()), 20+int(absence/time.Second); asked > most {
					t.Errorf("%d requests, more than %d", asked, most)
				}
				r.setAway(false)
				back := time.Now()
				for m := before; m == nil || m.Annotations[podinfo.AnnotationMirror] != "two" ||
					m.Status.Phase != v1.PodRunning; m = r.mirror("web") {
					pass(100 * time.Millisecond)
					if took := time.Since(back); took > 10*time.Second {
						t.Fatalf("%v later the mirror is not the new one: %v", took, r.requests())
					}
				}
				pass(time.Second)
				lease := &coordinationv1.Lease{}
				if !r.get(t, "leases", v1.NamespaceNodeLease, "edge", lease) ||
					time.Since(lease.Spec.RenewTime.Time) > defaultLeaseDuration/renewalsPerLease {
					t.Errorf("the lease was not renewed: %v", lease.Spec.RenewTime)
				}
			})
		})
	}
}

// While it is unreachable only probes are sent, however many requests callers
// make.
func TestLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		returned, asked, code, fault := 0, 0, 200, error(nil)
		l := &connection{log: slog.New(slog.NewTextHandler(&log, nil)), onReachable: func() { returned++ }}
		over := l.wrap(transport(func(*http.Request) (*http.Response, error) {
			asked++
			if fault != nil {
				return nil, fault
			}
			return response(code, io.NopCloser(strings.NewReader(""))), nil
		}))
		ask := func() error {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://api.invalid/", nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := over.RoundTrip(req)
			if err == nil {
				resp.Body.Close()
			}
			return err
		}
		must := func(what string, err, want error) {
			t.Helper()
			if !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", what, err, want)
			}
		}
		must("it answers", ask(), nil)
		code = http.StatusForbidden
		must("a refusal is an answer", ask(), nil)
		must("another request", ask(), nil)
		fault = errors.New("connection refused")
		must("it goes", ask(), fault)
		must("the next one", ask(), errUnreachable)
		must("the reason is returned", ask(), fault)
		asked = 0
		for range 60 * 100 {
			time.Sleep(10 * time.Millisecond)
			_ = ask()
		}
		if asked < 60/7 || asked > 25 {
			t.Errorf("%d requests in a minute", asked)
		}
		fault, code = nil, http.StatusServiceUnavailable
		time.Sleep(maxProbeInterval * 2)
		must("the proxy in front of it answers", ask(), nil)
		must("the next one after a proxy error", ask(), errUnreachable)
		code, asked = 200, 0
		time.Sleep(maxProbeInterval * 2)
		must("it is back", ask(), nil)
		must("for all", ask(), nil)
		if returned != 1 {
			t.Errorf("%d notifications of its return", returned)
		}
		// An API server that flaps is not probed as often as one that
		// goes away once.
		asked = 0
		for until := time.Now().Add(time.Minute); time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
			fault = errors.New("connection refused")
			_ = ask()
			fault = nil
			_ = ask()
		}
		if asked > 60 {
			t.Errorf("%d requests in a minute", asked)
		}
		if n := strings.Count(log.String(), "API server unreachable"); n > 15 {
			t.Errorf("logged %d times", n)
		}
	})
}

// A dead connection without a reset delays requests only briefly; one slow request
// among responded ones is only slow itself.
func TestSilentConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := true
		l := &connection{log: slog.New(slog.DiscardHandler), onReachable: func() {}}
		over := l.wrap(transport(func(r *http.Request) (*http.Response, error) {
			if silent {
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
			return response(200, io.NopCloser(strings.NewReader(""))), nil
		}))
		ask := func(timeout time.Duration) error {
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://api.invalid/", nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := over.RoundTrip(req)
			if err == nil {
				resp.Body.Close()
			}
			return err
		}
		here, there := net.Pipe()
		defer there.Close()
		l.conns.open = map[*trackedConn]bool{{Conn: here, conns: &l.conns}: true}

		slow := make(chan error, 1)
		go func() { slow <- ask(requestTimeout) }()
		synctest.Wait()
		silent = false
		pass(time.Second)
		if err := ask(time.Second); err != nil {
			t.Error(err)
		}
		if err := <-slow; !errors.Is(err, context.DeadlineExceeded) || l.retryAfter() > 0 || len(l.conns.open) != 1 {
			t.Errorf("a slow request ends with %v, closed for %v, %d connections", err, l.retryAfter(), len(l.conns.open))
		}
		silent = true
		pass(time.Second)
		if err := ask(requestTimeout); !errors.Is(err, context.DeadlineExceeded) || l.retryAfter() == 0 ||
			len(l.conns.open) != 0 {
			t.Errorf("a request without an answer ends with %v, closed for %v, %d connections", err, l.retryAfter(),
				len(l.conns.open))
		}
	})
}

// A server that is not an API server is not asked in a loop, and the error is
// logged.
func TestSomethingElseAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		asked := 0
		l := &connection{log: slog.New(slog.NewTextHandler(&log, nil)), onReachable: func() {}}
		c, err := newClient(&rest.Config{Host: "http://api.invalid",
			Transport: transport(func(*http.Request) (*http.Response, error) {
				asked++
				r := response(200, io.NopCloser(strings.NewReader("<html>Please log in</html>")))
				r.Header.Set("Content-Type", "text/html")
				return r, nil
			})}, l, RateLimit{}, RateLimit{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		w := newReflector[*v1.Pod](c.core, "pods", "", l, func() {})
		go func() { defer close(done); w.Run(ctx) }()
		pass(10 * time.Minute)
		cancel()
		<-done
		if asked < 10 || asked > 150 {
			t.Errorf("%d requests in ten minutes", asked)
		}
		if _, synced := w.Objects(); synced || strings.Count(log.String(), "List/watch failed, retrying") != 1 {
			t.Errorf("synced: %v; the log: %s", synced, log.String())
		}
	})
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestRetry(t *testing.T) {
	for failures, want := range map[int]time.Duration{
		0: 200 * time.Millisecond, 1: 200 * time.Millisecond, 2: 400 * time.Millisecond, 6: 6400 * time.Millisecond,
		7: 8 * time.Second, 1000: 8 * time.Second,
	} {
		if got := retryDelay(failures); got != want {
			t.Errorf("after %d: %v, want %v", failures, got, want)
		}
	}
	for range 1000 {
		if d := jittered(maxRetryDelay); d < 6*time.Second || d > 10*time.Second {
			t.Fatalf("%v", d)
		}
	}
}

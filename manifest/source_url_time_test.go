package manifest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// scriptTransport responds as configured and records the times of requests.
type scriptTransport struct {
	mu       sync.Mutex
	response func(*http.Request) (string, error)
	asked    []time.Time
	jitter   float64
}

func (s *scriptTransport) set(response func(*http.Request) (string, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.response = response
}

func (s *scriptTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	s.mu.Lock()
	s.asked = append(s.asked, time.Now())
	response := s.response
	s.mu.Unlock()
	body, err := response(request)
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(body)), Header: http.Header{},
		Request: request}, nil
}

// gaps returns the times between the requests since the last call.
func (s *scriptTransport) gaps() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	var gaps []time.Duration
	for i := 1; i < len(s.asked); i++ {
		gaps = append(gaps, s.asked[i].Sub(s.asked[i-1]))
	}
	s.asked = s.asked[max(0, len(s.asked)-1):]
	return gaps
}

func inURLBubble(t *testing.T, checkpoint *Checkpoint,
	test func(t *testing.T, sink *sinkDeliverer, transport *scriptTransport, source *URLSource)) {
	synctest.Test(t, func(t *testing.T) {
		sink := newSink(t, checkpoint, quietLog())
		source, err := NewURLSource(URLSourceOptions{URL: "http://host/pods", Loader: newScriptLoader(),
			Checkpoint: checkpoint, Deliver: sink})
		if err != nil {
			t.Fatal(err)
		}
		transport := &scriptTransport{}
		source.fetcher.transport = transport
		source.jitter = func() float64 {
			transport.mu.Lock()
			defer transport.mu.Unlock()
			return transport.jitter
		}
		test(t, sink, transport, source)
	})
}

func TestURLSourceBacksOff(t *testing.T) {
	inURLBubble(t, openTestCheckpoint(t, ""),
		func(t *testing.T, sink *sinkDeliverer, transport *scriptTransport, source *URLSource) {
			down := func(*http.Request) (string, error) { return "", errors.New("no route to host") }
			up := func(*http.Request) (string, error) { return "a 1", nil }
			transport.set(down)
			stop := runInBackground(t, source.Run)
			defer stop()
			seconds := func(want ...int) {
				t.Helper()
				got := transport.gaps()
				for i, gap := range got {
					if i < len(want) && gap != time.Duration(want[i])*time.Second {
						t.Errorf("gaps are %v, want %v", got, want)
					}
				}
				if len(got) < len(want) {
					t.Errorf("gaps are %v, want %v", got, want)
				}
			}
			// Before the first response, the network may just be starting.
			sleepInBubble(10 * time.Minute)
			seconds(1, 2, 4, 8, 16, 32, 64, 120, 120)
			if len(sink.sets) != 1 {
				t.Errorf("%d sets were delivered for one fault", len(sink.sets))
			}
			transport.set(up)
			sleepInBubble(maxRetry)
			transport.gaps()
			sleepInBubble(time.Minute)
			seconds(20, 20, 20)
			transport.set(down)
			sleepInBubble(10 * time.Minute)
			seconds(20, 20, 40, 80, 120, 120)
			transport.mu.Lock()
			transport.jitter = 1
			transport.mu.Unlock()
			sleepInBubble(maxRetry)
			transport.gaps()
			sleepInBubble(10 * time.Minute)
			seconds(180, 180, 180)
		})
}

// The first response is awaited only for a short time.
func TestURLSourceBootWithoutAnswer(t *testing.T) {
	checkpoint := openTestCheckpoint(t, "")
	checkpoint.accept(SourceHTTP, []Unit{scriptUnit("http://host/pods", "a 1", SourceHTTP)}, true)
	inURLBubble(t, checkpoint, func(t *testing.T, sink *sinkDeliverer, transport *scriptTransport, source *URLSource) {
		transport.response = func(request *http.Request) (string, error) {
			<-request.Context().Done()
			return "", request.Context().Err()
		}
		began := time.Now()
		stop := runInBackground(t, source.Run)
		defer stop()
		set := <-sink.sets
		if took := time.Since(began); took != restoreDelay || !set.Restored ||
			setFaults(set) != "http://host/pods: has not answered yet; its pods keep running; retrying" {
			t.Errorf("after %v: %+v", took, set)
		}
		set = <-sink.sets
		if took := time.Since(began); took != defaultTimeout ||
			!strings.Contains(setFaults(set), "did not answer within 10s") {
			t.Errorf("after %v: %+v", took, set)
		}
	})
}

// A slow answer that arrives in time is the first set.
func TestURLSourceBootWithSlowAnswer(t *testing.T) {
	checkpoint := openTestCheckpoint(t, "")
	checkpoint.accept(SourceHTTP, []Unit{scriptUnit("http://host/pods", "a 1", SourceHTTP)}, true)
	inURLBubble(t, checkpoint, func(t *testing.T, sink *sinkDeliverer, transport *scriptTransport, source *URLSource) {
		transport.response = func(*http.Request) (string, error) {
			time.Sleep(restoreDelay - time.Nanosecond)
			return "a 2", nil
		}
		stop := runInBackground(t, source.Run)
		defer stop()
		set := <-sink.sets
		sink.model.drain(sink.config)
		if set.Restored || len(sink.model.log) != 1 || sink.model.log[0] != "ADD http a=2" {
			t.Errorf("set is %+v, updates %q", set, sink.model.log)
		}
	})
}

// Run ends in the middle of a request.
func TestURLSourceRunEnds(t *testing.T) {
	inURLBubble(t, openTestCheckpoint(t, ""),
		func(t *testing.T, sink *sinkDeliverer, transport *scriptTransport, source *URLSource) {
			transport.response = func(request *http.Request) (string, error) {
				<-request.Context().Done()
				return "", request.Context().Err()
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- source.Run(ctx) }()
			synctest.Wait()
			cancel()
			began := time.Now()
			if err := <-ended; err != nil || time.Since(began) > 0 {
				t.Errorf("ended with %v after %v", err, time.Since(began))
			}
			if len(sink.sets) > 0 {
				t.Error("the end was taken for a fault")
			}
		})
}

// The time of the last read is that of the last response: an unchanged body is read too, and a
// request without a response is no read.
func TestURLSourceTimeOfLastRead(t *testing.T) {
	inURLBubble(t, openTestCheckpoint(t, t.TempDir()+"/manifests.json"),
		func(t *testing.T, sink *sinkDeliverer, transport *scriptTransport, source *URLSource) {
			var read []time.Time
			source.opts.Read = func(at time.Time) { read = append(read, at) }
			transport.set(func(*http.Request) (string, error) { return "", errors.New("away") })
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() { _ = source.Run(ctx) }()
			synctest.Wait()
			if len(read) > 0 || !source.readAt.IsZero() {
				t.Fatalf("read at %v, %v without an answer", read, source.readAt)
			}
			transport.set(func(*http.Request) (string, error) { return "a", nil })
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			if len(read) < 3 || time.Since(read[len(read)-1]) > defaultInterval {
				t.Errorf("read at %v, now it is %v", read, time.Now())
			}
			before := source.readAt
			transport.set(func(*http.Request) (string, error) { return "", errors.New("away") })
			time.Sleep(time.Hour)
			synctest.Wait()
			if !source.readAt.Equal(before) && source.readAt.Sub(before) > defaultInterval {
				t.Errorf("an hour without an answer moved the last read from %v to %v", before, source.readAt)
			}
		})
}

package cri

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// registry is an image service whose pulls block until the test serves them.
type registry struct {
	mu        sync.Mutex
	present   map[string]string // image ID by reference
	responses map[string]chan error
	begun     []string
	ended     []string // cancelled
	inspect   error
	slow      time.Duration // delay until a cancelled pull returns
}

func newRegistry(present ...string) *registry {
	r := &registry{present: map[string]string{}, responses: map[string]chan error{}}
	for _, image := range present {
		r.present[image] = "id-of-" + image
	}
	return r
}

func (r *registry) ImageStatus(_ context.Context, image string) (*runtimeapi.Image, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.inspect != nil {
		return nil, r.inspect
	}
	if id, ok := r.present[image]; ok {
		return &runtimeapi.Image{Id: id}, nil
	}
	return nil, nil
}

func (r *registry) PullImage(ctx context.Context, image string, auth *runtimeapi.AuthConfig) (string, error) {
	if auth != nil {
		image += " as " + auth.Username
	}
	r.mu.Lock()
	r.begun = append(r.begun, image)
	response := r.channel(image)
	r.mu.Unlock()
	select {
	case err := <-response:
		return "pulled-" + image, err
	case <-ctx.Done():
		time.Sleep(r.slow)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.ended = append(r.ended, image)
		return "", ctx.Err()
	}
}

func (r *registry) channel(image string) chan error {
	if r.responses[image] == nil {
		r.responses[image] = make(chan error, 1)
	}
	return r.responses[image]
}

func (r *registry) response(image string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.channel(image) <- err
}

func (r *registry) pulls() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.begun)
}

// eventLog records events.
type eventLog struct {
	mu   sync.Mutex
	list []string
}

func (l *eventLog) Event(pod *v1.Pod, eventType, reason, message string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, fmt.Sprintf("%s %s %s: %s", pod.Name, eventType, reason, message))
}

// reasons returns the recorded reasons in order.
func (l *eventLog) reasons() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []string
	for _, line := range l.list {
		all = append(all, strings.TrimSuffix(strings.Fields(line)[2], ":"))
	}
	return all
}

// waiter is one caller of ensure.
type waiter struct {
	ref    string
	err    error
	done   bool
	cancel context.CancelFunc
}

func (m *imageManager) ask(uid, image string, policy v1.PullPolicy) *waiter {
	return m.askWith(uid, image, policy, PullCredentials{})
}

func (m *imageManager) askWith(uid, image string, policy v1.PullPolicy, credentials PullCredentials) *waiter {
	ctx, cancel := context.WithCancel(context.Background())
	w := &waiter{cancel: cancel}
	pod := desiredPod("", nil)
	pod.UID = types.UID(uid)
	go func() {
		w.ref, w.err = m.ensure(ctx, pod, image, policy, credentials)
		w.done = true
	}()
	synctest.Wait()
	return w
}

func (w *waiter) waiting() Waiting {
	var e *waitError
	if errors.As(w.err, &e) {
		return e.Waiting
	}
	return Waiting{}
}

func TestImagePolicies(t *testing.T) {
	for _, tc := range []struct {
		name    string
		image   string
		policy  v1.PullPolicy
		present bool
		inspect error
		pull    error
		ref     string
		reason  string
		events  []string
	}{
		{name: "IfNotPresent, there", policy: v1.PullIfNotPresent, present: true, ref: "id-of-web:1",
			events: []string{"Pulled"}},
		{name: "IfNotPresent, not there", policy: v1.PullIfNotPresent, ref: "pulled-web:1",
			events: []string{"Pulling", "Pulled"}},
		{name: "Always, there", policy: v1.PullAlways, present: true, ref: "pulled-web:1",
			events: []string{"Pulling", "Pulled"}},
		{name: "Never, there", policy: v1.PullNever, present: true, ref: "id-of-web:1", events: []string{"Pulled"}},
		{name: "Never, not there", policy: v1.PullNever, reason: "ErrImageNeverPull", events: []string{"ErrImageNeverPull"}},
		{name: "pull fails", policy: v1.PullIfNotPresent, pull: errors.New("no route"), reason: "ErrImagePull",
			events: []string{"Pulling", "Failed"}},
		{name: "inspect fails", policy: v1.PullIfNotPresent, inspect: errors.New("broken"), reason: "ImageInspectError",
			events: []string{"InspectFailed"}},
		{name: "inspect fails, Always ignores it", policy: v1.PullAlways, inspect: errors.New("broken"), ref: "pulled-web:1",
			events: []string{"Pulling", "Pulled"}},
		{name: "bad name", image: "WEB:1", policy: v1.PullIfNotPresent, reason: "InvalidImageName",
			events: []string{"InspectFailed"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, events := newRegistry(), &eventLog{}
				if tc.present {
					r.present["web:1"] = "id-of-web:1"
				}
				r.inspect = tc.inspect
				r.response("web:1", tc.pull)
				if tc.image == "" {
					tc.image = "web:1"
				}
				w := newImageManager(ImageConfig{Runtime: r}, events).ask("u", tc.image, tc.policy)
				if !w.done || w.ref != tc.ref || w.waiting().Reason != tc.reason {
					t.Errorf("got %q, %v, want %q and %q", w.ref, w.err, tc.ref, tc.reason)
				}
				if tc.reason != "" && w.waiting().Message == "" {
					t.Error("no message")
				}
				if got := events.reasons(); !slices.Equal(got, tc.events) {
					t.Errorf("events %q, want %q", got, tc.events)
				}
			})
		})
	}
}

func TestImageBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry()
		m := newImageManager(ImageConfig{Runtime: r}, noEvents{})
		for _, seconds := range []int{10, 20, 40, 80, 160, 300, 300} {
			delay := time.Duration(seconds) * time.Second
			r.response("web:1", errors.New("no route"))
			w := m.ask("u", "web:1", v1.PullIfNotPresent)
			if w.waiting().Reason != "ErrImagePull" {
				t.Fatalf("got %v", w.err)
			}
			time.Sleep(delay - time.Second)
			w = m.ask("u", "web:1", v1.PullIfNotPresent)
			want := Waiting{"ImagePullBackOff", `Back-off pulling image "web:1": ErrImagePull: no route`}
			if w.waiting() != want {
				t.Fatalf("after %s: got %v, want %v", delay-time.Second, w.err, want)
			}
			var held *waitError
			if errors.As(w.err, &held); held.retryAfter != time.Second || held.cause != nil {
				t.Errorf("retry after %s, cause %v, want 1s and no error", held.retryAfter, held.cause)
			}
			time.Sleep(time.Second)
		}
		// Another pod, or another image, is not delayed.
		r.response("web:1", nil)
		if w := m.ask("other", "web:1", v1.PullIfNotPresent); w.err != nil {
			t.Errorf("another pod: %v", w.err)
		}
		// An image that appeared by other means ends the back-off.
		r.response("web:1", errors.New("no route"))
		m.ask("u", "web:1", v1.PullIfNotPresent)
		r.present["web:1"] = "x"
		if w := m.ask("u", "web:1", v1.PullIfNotPresent); w.err != nil {
			t.Errorf("present: %v", w.err)
		}
		if len(m.failures) != 0 {
			t.Errorf("failures kept: %v", m.failures)
		}
	})
}

func TestImageBackoffResets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry()
		m := newImageManager(ImageConfig{Runtime: r}, noEvents{})
		for range 2 {
			r.response("web:1", errors.New("no route"))
			m.ask("u", "web:1", v1.PullIfNotPresent)
			time.Sleep(imageBackoffReset + time.Second)
		}
		r.response("web:1", errors.New("no route"))
		w := m.ask("u", "web:1", v1.PullIfNotPresent)
		var held *waitError
		if errors.As(w.err, &held); held.retryAfter != imageErrorShown {
			t.Errorf("retried after %s", held.retryAfter)
		}
		w = m.ask("u", "web:1", v1.PullIfNotPresent)
		if errors.As(w.err, &held); held.retryAfter != 10*time.Second {
			t.Errorf("waits %s, want 10s", held.retryAfter)
		}
		m.forgetPod("u")
		r.response("web:1", nil)
		if w = m.ask("u", "web:1", v1.PullIfNotPresent); w.err != nil {
			t.Errorf("after the failures expired: %v", w.err)
		}
	})
}

func TestEqualPullsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry()
		m := newImageManager(ImageConfig{Runtime: r}, noEvents{})
		first := m.ask("1", "web", v1.PullIfNotPresent)
		second := m.ask("2", "web:latest", v1.PullIfNotPresent)
		third := m.ask("3", "web", v1.PullAlways)
		if got := r.pulls(); !slices.Equal(got, []string{"web:latest"}) {
			t.Fatalf("pulls %q, want one", got)
		}
		// The first caller goes away; the pull continues for the
		// others.
		first.cancel()
		synctest.Wait()
		if !first.done || !errors.Is(first.err, context.Canceled) || second.done {
			t.Fatalf("first %v, second done %t", first.err, second.done)
		}
		r.response("web:latest", nil)
		synctest.Wait()
		for _, w := range []*waiter{second, third} {
			if !w.done || w.err != nil || w.ref != "pulled-web:latest" {
				t.Errorf("got %q, %v", w.ref, w.err)
			}
		}
		if len(r.ended) != 0 || len(m.pulls.inflight) != 0 {
			t.Errorf("cancelled %q, left %v", r.ended, m.pulls.inflight)
		}
	})
}

func TestPullIsCancelledWithItsLastWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, events := newRegistry(), &eventLog{}
		m := newImageManager(ImageConfig{Runtime: r}, events)
		first := m.ask("1", "web:1", v1.PullIfNotPresent)
		second := m.ask("2", "web:1", v1.PullIfNotPresent)
		first.cancel()
		second.cancel()
		synctest.Wait()
		if !slices.Equal(r.ended, []string{"web:1"}) || !second.done {
			t.Fatalf("cancelled %q", r.ended)
		}
		// The cancelled pull was no failure, and the next one pulls
		// again.
		if len(m.failures) != 0 || slices.Contains(events.reasons(), "Failed") {
			t.Errorf("failures %v, events %q", m.failures, events.reasons())
		}
		third := m.ask("1", "web:1", v1.PullIfNotPresent)
		r.response("web:1", nil)
		synctest.Wait()
		if third.err != nil || !third.done {
			t.Errorf("got %v", third.err)
		}
	})
}

func TestCancelledPullIsNotShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry()
		r.slow = time.Minute
		m := newImageManager(ImageConfig{Runtime: r}, noEvents{})
		first := m.ask("1", "web:1", v1.PullIfNotPresent)
		first.cancel()
		synctest.Wait() // the cancelled pull takes this long to return
		second := m.ask("2", "web:1", v1.PullIfNotPresent)
		if got := len(r.pulls()); got != 2 {
			t.Errorf("%d pulls, want a new one", got)
		}
		r.response("web:1", nil)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if second.err != nil || !second.done || !first.done {
			t.Errorf("got %v, first done %t", second.err, first.done)
		}
	})
}

func TestSharedFailureBacksOffEachPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry()
		m := newImageManager(ImageConfig{Runtime: r}, noEvents{})
		first, second := m.ask("1", "web:1", v1.PullIfNotPresent), m.ask("2", "web:1", v1.PullIfNotPresent)
		r.response("web:1", errors.New("no route"))
		synctest.Wait()
		if first.waiting().Reason != "ErrImagePull" || second.waiting().Reason != "ErrImagePull" {
			t.Errorf("got %v and %v", first.err, second.err)
		}
		for _, uid := range []string{"1", "2"} {
			if w := m.ask(uid, "web:1", v1.PullIfNotPresent); w.waiting().Reason != "ImagePullBackOff" {
				t.Errorf("pod %s: got %v", uid, w.err)
			}
		}
	})
}

func TestAtMostFivePullsStartAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry("there:1")
		m := newImageManager(ImageConfig{Runtime: r}, noEvents{})
		var all []*waiter
		for i := range 12 {
			all = append(all, m.ask("u", fmt.Sprintf("web:%d", i), v1.PullIfNotPresent))
		}
		if got := len(r.pulls()); got != 5 {
			t.Fatalf("%d pulls at once, want 5", got)
		}
		// A present image never queues, whatever the policy.
		if w := m.ask("u", "there:1", v1.PullIfNotPresent); !w.done || w.err != nil {
			t.Errorf("present: done %t, %v", w.done, w.err)
		}
		r.response("there:1", nil)
		if w := m.ask("u", "there:1", v1.PullAlways); !w.done || w.err != nil {
			t.Errorf("present, Always: done %t, %v", w.done, w.err)
		}
		// When a pull ends, the longest waiting one takes its slot.
		r.response("web:0", nil)
		synctest.Wait()
		if got := r.pulls(); got[len(got)-1] != "web:5" || len(got) != 7 {
			t.Fatalf("pulls %q", got)
		}
		// A waiting pull can be cancelled before it starts.
		all[6].cancel()
		synctest.Wait()
		if !all[6].done || slices.Contains(r.pulls(), "web:6") {
			t.Error("a cancelled pull still waits")
		}
		// Pulls that run for 30 s release their slots to the next ones.
		time.Sleep(29 * time.Second)
		synctest.Wait()
		if got := len(r.pulls()); got != 7 {
			t.Fatalf("%d pulls before 30 s, want 7", got)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got := r.pulls(); len(got) != 12 || slices.Contains(got, "web:6") {
			t.Fatalf("pulls after 30 s: %q", got)
		}
		for i := range all {
			r.response(fmt.Sprintf("web:%d", i), nil)
		}
		synctest.Wait()
		for i, w := range all {
			if i != 6 && (!w.done || w.err != nil) {
				t.Errorf("web:%d: done %t, %v", i, w.done, w.err)
			}
		}
		if got := len(m.pulls.limiter.slots); got != 0 {
			t.Errorf("%d slots are still in use", got)
		}
	})
}

package cluster

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// lists returns how often pods were listed since the last call.
func (r *clusterHarness) lists() (n int) {
	for _, q := range r.requests() {
		if q.resource == "pods" && q.verb == "LIST" {
			n++
		}
	}
	return n
}

// An error in a watch is followed by a new list, so that nothing is missed. It is logged
// once, unless it is the usual end of a watch whose version has expired.
func TestErrorInAWatch(t *testing.T) {
	for name, test := range map[string]struct {
		err apierrors.APIStatus
		// logged is the word of the one warning, empty for none.
		logged string
	}{
		"410 Gone, expired": {apierrors.NewResourceExpired("too old resource version: 5 (9)"), ""},
		"410 Gone": {&apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonGone, Message: "gone",
		}}, ""},
		"403 Forbidden": {apierrors.NewForbidden(v1.Resource("pods"), "", errors.New("no longer")), "no longer"},
		"500 Internal error": {apierrors.NewInternalError(errors.New("etcd event received with PrevKv=nil")),
			"PrevKv=nil"},
		"504 Gateway timeout":   {apierrors.NewTimeoutError("cannot decode", 0), "cannot decode"},
		"429 Too many requests": {apierrors.NewTooManyRequestsError("storage is initializing"), "storage is initializing"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newClusterHarness(t)
				r.start()
				defer r.end()
				pass(time.Minute)
				r.warnings()
				r.lists()
				// The event of the change is lost with the watch.
				r.failWatches("pods", test.err)
				uid := r.bind("web")
				pass(time.Second)
				if r.bound[uid] == nil {
					t.Error("the change was missed")
				}
				if n := r.lists(); n != 1 {
					t.Errorf("%d lists, want 1", n)
				}
				warnings := r.warnings()
				if want := min(len(test.logged), 1); len(warnings) != want || want == 1 &&
					(!strings.Contains(warnings[0], test.logged) || !strings.Contains(warnings[0], "resource=pods")) {
					t.Errorf("warnings %q, want %q", warnings, test.logged)
				}
			})
		})
	}
}

// A watch that fails each time as soon as it begins is retried with a back-off, and logged
// once. What the lists show is used, and the end of the fault is noticed.
func TestEachWatchFails(t *testing.T) {
	for name, err := range map[string]apierrors.APIStatus{
		"expired":   apierrors.NewResourceExpired("too old resource version"),
		"forbidden": apierrors.NewForbidden(v1.Resource("pods"), "", errors.New("no")),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newClusterHarness(t)
				r.start()
				defer r.end()
				pass(time.Minute)
				r.warnings()
				r.lists()
				setWatchError := func(err apierrors.APIStatus) {
					r.fakeAPI.mu.Lock()
					defer r.fakeAPI.mu.Unlock()
					r.watchError = err
				}
				setWatchError(err)
				r.failWatches("pods", err)
				pass(time.Hour)
				if n, limit := r.lists(), 2*int(time.Hour/maxRetryDelay); n > limit || n < 100 {
					t.Errorf("%d lists in an hour, want at most %d", n, limit)
				}
				want := 1
				if name == "expired" {
					want = 0
				}
				if warnings := r.warnings(); len(warnings) != want {
					t.Errorf("%d warnings in an hour, want %d: %q", len(warnings), want, slices.Compact(warnings))
				}
				uid := r.bind("web")
				pass(maxRetryDelay + maxRetryDelay/4)
				if r.bound[uid] == nil {
					t.Error("the list was not used")
				}
				setWatchError(nil)
				pass(maxRetryDelay + maxRetryDelay/4)
				r.requests()
				pass(time.Minute)
				if n := r.lists(); n > 0 {
					t.Errorf("%d lists after the fault", n)
				}
			})
		})
	}
}

// A list or watch request that is served with 410 Gone is repeated without a version.
func TestRequestIsAnsweredWithGone(t *testing.T) {
	for _, verb := range []string{"LIST", "WATCH"} {
		t.Run(verb, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newClusterHarness(t)
				r.start()
				defer r.end()
				pass(time.Minute)
				r.warnings()
				gone := 3
				r.fakeAPI.mu.Lock()
				r.react = func(q fakeRequest) (runtime.Object, error) {
					if q.resource != "pods" || q.verb != verb || gone == 0 {
						return nil, nil
					}
					gone--
					return nil, apierrors.NewResourceExpired("too old")
				}
				r.fakeAPI.mu.Unlock()
				r.endWatches()
				uid := r.bind("web")
				pass(5 * time.Second)
				if warnings := r.warnings(); gone != 0 || r.bound[uid] == nil || len(warnings) > 0 {
					t.Errorf("%d left, delivered %v, warnings %q", gone, r.bound[uid], warnings)
				}
			})
		})
	}
}

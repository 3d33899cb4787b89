package cri

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
)

// loginsOf returns a lookup that finds the same credentials for each image.
func loginsOf(revision string, fault error, users ...string) PullCredentials {
	return PullCredentials{Revision: revision, Lookup: func(context.Context, string) ([]Credential, error) {
		var list []Credential
		for _, user := range users {
			list = append(list, Credential{Origin: "Secret shop/" + user, Username: user, Password: "hunter2-" + user})
		}
		return list, fault
	}}
}

func TestCredentialsAreTriedInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, events := newRegistry(), &eventLog{}
		m := newImageManager(ImageConfig{Runtime: r}, events)
		r.response("web:1 as a", errors.New("401 Unauthorized"))
		r.response("web:1 as b", nil)
		w := m.askWith("u", "web:1", v1.PullIfNotPresent, loginsOf("", nil, "a", "b", "c"))
		if w.ref != "pulled-web:1 as b" || w.err != nil {
			t.Errorf("got %q, %v", w.ref, w.err)
		}
		if got := r.pulls(); !slices.Equal(got, []string{"web:1 as a", "web:1 as b"}) {
			t.Errorf("pulls %q", got)
		}
	})
}

// All failures are reported together, along with the credential sources that
// failed, and without any secret, which a registry may echo.
func TestFailedCredentialsAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, events := newRegistry(), &eventLog{}
		m := newImageManager(ImageConfig{Runtime: r}, events)
		r.response("web:1 as a", errors.New("401 Unauthorized for a:hunter2-a"))
		r.response("web:1 as b", errors.New("403 Forbidden"))
		fault := errors.Join(errors.New("there is no Secret shop/c"), errors.New("cannot read config.json"))
		w := m.askWith("u", "web:1", v1.PullIfNotPresent, loginsOf("", fault, "a", "b"))
		want := `Failed to pull image "web:1": with the credential of Secret shop/a: 401 Unauthorized for a:[hidden]; ` +
			`with the credential of Secret shop/b: 403 Forbidden; credential lookup failed: there is no Secret shop/c; cannot read config.json`
		if got := w.waiting(); got != (Waiting{"ErrImagePull", want}) {
			t.Errorf("got %+v", got)
		}
		if w = m.askWith("u", "web:1", v1.PullIfNotPresent,
			loginsOf("", nil, "a")); w.waiting().Reason != "ImagePullBackOff" ||
			!strings.Contains(w.waiting().Message, "403 Forbidden") {
			t.Errorf("got %+v", w.waiting())
		}
		all := fmt.Sprint(events.list, w.err)
		if strings.Contains(all, "hunter2") {
			t.Errorf("a secret is in %s", all)
		}
	})
}

// Changed credentials reset the back-off.
func TestNewCredentialsResetTheBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry()
		m := newImageManager(ImageConfig{Runtime: r}, noEvents{})
		for range 3 {
			r.response("web:1", errors.New("401 Unauthorized"))
			m.askWith("u", "web:1", v1.PullIfNotPresent, loginsOf("1", nil))
			time.Sleep(time.Minute)
		}
		r.response("web:1 as a", errors.New("401 Unauthorized"))
		w := m.askWith("u", "web:1", v1.PullIfNotPresent, loginsOf("2", nil, "a"))
		if w.waiting().Reason != "ErrImagePull" {
			t.Errorf("got %v", w.err)
		}
		w = m.askWith("u", "web:1", v1.PullIfNotPresent, loginsOf("2", nil, "a"))
		var held *waitError
		if !errors.As(w.err, &held) || held.Reason != "ImagePullBackOff" || held.retryAfter != imageBackoffInitial {
			t.Errorf("got %v", w.err)
		}
		r.response("web:1 as b", nil)
		if w := m.askWith("u", "web:1", v1.PullIfNotPresent, loginsOf("3", nil, "b")); w.err != nil {
			t.Errorf("got %v", w.err)
		}
	})
}

// A caller without credentials does not get an image through the pull of a
// caller with them.
func TestPullsAreSharedByCredential(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry()
		m := newImageManager(ImageConfig{Runtime: r}, noEvents{})
		with := m.askWith("1", "web:1", v1.PullIfNotPresent, loginsOf("", nil, "a"))
		same := m.askWith("2", "web:1", v1.PullIfNotPresent, loginsOf("", nil, "a"))
		without := m.ask("3", "web:1", v1.PullIfNotPresent)
		if got := r.pulls(); !slices.Equal(got, []string{"web:1 as a", "web:1"}) {
			t.Fatalf("pulls %q", got)
		}
		r.response("web:1 as a", nil)
		r.response("web:1", errors.New("401 Unauthorized"))
		synctest.Wait()
		if with.err != nil || same.err != nil || without.waiting().Reason != "ErrImagePull" {
			t.Errorf("got %v, %v, %v", with.err, same.err, without.err)
		}
		if len(m.pulls.inflight) != 0 {
			t.Errorf("left: %d", len(m.pulls.inflight))
		}
	})
}

package cri

import (
	"errors"
	"strings"
	"testing"
)

func TestPullImage(t *testing.T) {
	r := newRegistry()
	r.response("web:latest as a", errors.New("401 for hunter2-a"))
	r.response("web:latest as b", nil)
	name, id, err := PullImage(t.Context(), r, nil, "web", loginsOf("", nil, "a", "b"))
	if name != "web:latest" || id != "pulled-web:latest as b" || err != nil {
		t.Errorf("got %q %q %v", name, id, err)
	}
	r.response("web:1 as a", errors.New("401 for hunter2-a"))
	_, _, err = PullImage(t.Context(), r, nil, "web:1", loginsOf("", errors.New("there is no Secret shop/c"), "a"))
	want := `failed to pull image "web:1": with the credential of Secret shop/a: 401 for [hidden]; credential lookup failed: there is no Secret shop/c`
	if err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
	var bad *NameError
	if _, _, err = PullImage(t.Context(), r, nil, "Web:1", PullCredentials{}); !errors.As(err, &bad) ||
		!strings.Contains(err.Error(), "not a valid reference") {
		t.Errorf("an invalid name: %v", err)
	}
}

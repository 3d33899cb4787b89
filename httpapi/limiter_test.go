package httpapi

import (
	"net/http/httptest"
	"testing"

	"github.com/podstead/podstead/httpapi/access"
)

func TestLimiterReservesSlotsForSocket(t *testing.T) {
	s := newLimiter(2, 1)
	other := httptest.NewRequest("GET", "/", nil)
	owner := other.WithContext(access.WithCaller(other.Context(), access.Caller{Classes: access.All, Local: true}))
	first, second := s.acquire(other), s.acquire(other)
	if first == nil || second == nil || s.acquire(other) != nil {
		t.Fatal("two are for everybody")
	}
	own := s.acquire(owner)
	if own == nil || s.acquire(owner) != nil {
		t.Fatal("one more is the owner's")
	}
	own()
	first()
	for range 2 { // one for everybody, one for himself
		if s.acquire(owner) == nil {
			t.Error("what was given back is not to be had")
		}
	}
	if s.acquire(other) != nil || s.acquire(owner) != nil {
		t.Error("there are too many")
	}
}

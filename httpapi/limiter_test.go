package httpapi

import (
	"net/http/httptest"
	"testing"

	"github.com/podstead/podstead/httpapi/access"
)

func TestLimiterReservesSlotsForSocket(t *testing.T) {
	l := newLimiter(2, 1)
	other := httptest.NewRequest("GET", "/", nil)
	owner := other.WithContext(access.WithCaller(other.Context(), access.Caller{Classes: access.All, Local: true}))
	first, second := l.acquire(other), l.acquire(other)
	if first == nil || second == nil || l.acquire(other) != nil {
		t.Fatal("two shared slots")
	}
	own := l.acquire(owner)
	if own == nil || l.acquire(owner) != nil {
		t.Fatal("one reserved slot")
	}
	own()
	first()
	for range 2 { // one shared, one reserved
		if l.acquire(owner) == nil {
			t.Error("a released slot is not available")
		}
	}
	if l.acquire(other) != nil || l.acquire(owner) != nil {
		t.Error("more slots than configured")
	}
}

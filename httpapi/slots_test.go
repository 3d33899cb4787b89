package httpapi

import (
	"net/http/httptest"
	"testing"

	"github.com/podstead/podstead/httpapi/access"
)

func TestNobodyKeepsTheOwnerOfTheSocketOut(t *testing.T) {
	s := newSlots(2, 1)
	other := httptest.NewRequest("GET", "/", nil)
	owner := other.WithContext(access.With(other.Context(), access.Caller{May: access.All, Local: true}))
	first, second := s.take(other), s.take(other)
	if first == nil || second == nil || s.take(other) != nil {
		t.Fatal("two are for everybody")
	}
	own := s.take(owner)
	if own == nil || s.take(owner) != nil {
		t.Fatal("one more is the owner's")
	}
	own()
	first()
	for range 2 { // one for everybody, one for himself
		if s.take(owner) == nil {
			t.Error("what was given back is not to be had")
		}
	}
	if s.take(other) != nil || s.take(owner) != nil {
		t.Error("there are too many")
	}
}

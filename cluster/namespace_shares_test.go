package cluster

import (
	"fmt"
	"testing"
)

// However many namespaces take all they can, another one always has the small part, and
// together they stay below the limit and one small part each.
func TestNamespaceShares(t *testing.T) {
	s := newNamespaceShares(3200)
	const greedy = 20
	for i := range greedy {
		ns := fmt.Sprint("greedy", i)
		for s.fits(ns, 0, 1) {
			s.resize(ns, 1)
		}
	}
	if s.used["greedy0"] != 1600 || s.used["greedy1"] != 800 || s.total > s.max+greedy*s.floor() {
		t.Errorf("%d in all: %v", s.total, s.used)
	}
	if !s.fits("other", 0, s.floor()) || s.fits("other", 0, s.floor()+1) {
		t.Errorf("another namespace does not have %d", s.floor())
	}
	s.resize("greedy0", -1600)
	s.resize("greedy1", -800)
	if _, known := s.used["greedy0"]; known || !s.fits("other", 0, s.floor()+1) {
		t.Error("what a namespace had is not free")
	}
}

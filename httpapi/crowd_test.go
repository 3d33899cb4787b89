package httpapi

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// Memory is given back once a crowd is there, and not again for the same one.
func TestCrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		given := 0
		c := newCrowd(func() { given++ })
		come := func(n int, state http.ConnState) {
			for range n {
				c.changed(nil, state)
				time.Sleep(crowdCalm / 2)
			}
		}
		must := func(when string, want int) {
			t.Helper()
			time.Sleep(2 * crowdCalm)
			synctest.Wait()
			if given != want {
				t.Errorf("%s: given back %d times, want %d", when, given, want)
			}
		}
		come(crowdSize-1, http.StateNew)
		must("a few", 0)
		come(crowdSize, http.StateNew)
		must("a crowd", 1)
		come(crowdSize-1, http.StateNew)
		must("a few more", 1)
		come(3*crowdSize-2, http.StateClosed)
		must("they leave", 1)
		come(crowdSize, http.StateNew)
		must("another crowd", 2)
	})
}

//go:build race

package supervisor

import "runtime"

// underRace makes the random tests smaller, since each step costs ten times as
// much. The faults that they detect do not depend on the race detector.
const underRace = true

// With the race detector, timers of a synctest bubble that run on two threads
// at once share one context of the detector and crash it, three runs in eight
// here (https://github.com/golang/go/issues/78156). On one thread they cannot.
func init() { runtime.GOMAXPROCS(1) }

package podtable

import (
	"slices"
	"testing"
)

// The expressions are compiled when they are used, so that a wrong one would panic only then.
func TestPatternsCompile(t *testing.T) {
	all := append(slices.Clone(layers), noise, ofPull, inside, after)
	for _, e := range slices.Concat(known, knownOfPulls) {
		all = append(all, e.pattern)
	}
	for _, p := range all {
		if p() == nil {
			t.Error("a pattern has no expression")
		}
	}
}

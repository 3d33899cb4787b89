// Package pods tests the life of pods: their start, its order, hooks, restarts and termination.
package pods

import (
	"testing"

	"github.com/podstead/podstead/test/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

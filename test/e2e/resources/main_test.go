// Package resources tests cgroups, CPUs, memory, resizes, and the admission of pods to a node.
package resources

import (
	"testing"

	"github.com/podstead/podstead/test/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

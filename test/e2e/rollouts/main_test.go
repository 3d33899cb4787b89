// Package rollouts tests new revisions of pods, their rollback, and automatic updates.
package rollouts

import (
	"testing"

	"github.com/podstead/podstead/test/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

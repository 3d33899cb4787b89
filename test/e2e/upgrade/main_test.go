// Package upgrade tests upgrades from previous versions, over pods that run.
package upgrade

import (
	"testing"

	"github.com/podstead/podstead/test/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

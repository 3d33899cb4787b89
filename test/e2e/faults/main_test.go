// Package faults kills daemons, runtimes and containers, and puts other programs' pods next to those of the node.
package faults

import (
	"testing"

	"github.com/podstead/podstead/test/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

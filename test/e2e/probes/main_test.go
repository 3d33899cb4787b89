// Package probes tests probes of every kind, and that their results act at once.
package probes

import (
	"testing"

	"github.com/podstead/podstead/test/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

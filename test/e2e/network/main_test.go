// Package network tests the addresses, ports, names and bandwidth of pods.
package network

import (
	"testing"

	"github.com/podstead/podstead/test/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

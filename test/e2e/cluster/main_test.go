// Package cluster tests the node of a cluster: its pods, mirror pods and certificates, and the node's own object.
package cluster

import (
	"testing"

	"github.com/podstead/podstead/test/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

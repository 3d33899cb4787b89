// Package csi tests volumes of CSI drivers, on a node alone and in a cluster.
package csi

import (
	"testing"

	"github.com/podstead/podstead/test/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

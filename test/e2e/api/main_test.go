// Package api tests the Kubernetes API of a node with kubectl and informers.
package api

import (
	"testing"

	"github.com/podstead/podstead/test/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

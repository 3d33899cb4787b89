// Package hostile attacks the daemon from containers, clients and tenants.
package hostile

import (
	"testing"

	"github.com/podstead/podstead/test/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

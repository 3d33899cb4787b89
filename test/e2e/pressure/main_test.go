// Package pressure tests nodes that run short of memory or disk.
package pressure

import (
	"testing"

	"github.com/podstead/podstead/test/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

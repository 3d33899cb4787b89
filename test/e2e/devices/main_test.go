// Package devices tests device plugins, local devices and resource claims.
package devices

import (
	"testing"

	"github.com/podstead/podstead/test/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

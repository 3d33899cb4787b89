// Package spec tests what a container sees of its spec, from the inside.
package spec

import (
	"testing"

	"github.com/podstead/podstead/test/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

// Package cli tests the commands, the configuration and the manifests that commands convert.
package cli

import (
	"testing"

	"github.com/podstead/podstead/test/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

// Package images tests how images are pulled, loaded, kept and removed.
package images

import (
	"testing"

	"github.com/podstead/podstead/test/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

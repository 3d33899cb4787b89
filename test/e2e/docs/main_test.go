// Package docs runs the commands of the pages for users as they are written.
package docs

import (
	"testing"

	"github.com/podstead/podstead/test/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

// Package observability tests logs, events, metrics, statistics and traces.
package observability

import (
	"testing"

	"github.com/podstead/podstead/test/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

// Package systemd tests the service on a machine with systemd: its boots, shutdowns and restrictions.
package systemd

import (
	"testing"

	"github.com/podstead/podstead/test/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

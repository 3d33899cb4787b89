// Package sources tests where manifests come from: directories, URLs and OCI artifacts.
package sources

import (
	"testing"

	"github.com/podstead/podstead/test/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

package machine

import (
	"os"
	"testing"

	"github.com/podstead/podstead/test/testbed"
)

func TestMain(m *testing.M) {
	testbed.Isolate(Build)
	os.Exit(m.Run())
}

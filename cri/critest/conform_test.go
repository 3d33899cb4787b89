package critest_test

import (
	"testing"
	"testing/synctest"

	"github.com/podstead/podstead/cri/critest"
)

func TestConform(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := critest.New(t)
		f.SetImages("busybox")
		f.WriteLogs()
		critest.Conform(t, critest.Target{Client: f.Client(t), Image: "busybox", LogDir: t.TempDir(), Fake: f})
		f.Check(t)
	})
}

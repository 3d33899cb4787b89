package csi

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// Two daemons with the same drivers would publish a volume twice that is for one pod. The lock ends with the daemon,
// also if it is killed.
func TestCSIVolumesAreExclusive(t *testing.T) {
	t.Parallel()
	n := harness.NewNode(t, harness.SharedRuntime(t, testbed.Containerd24))
	d := n.NewCSIDriver("disk")
	d.Volume("data")
	n.WriteManifest("app.yaml", harness.ClaimPod("app", "data")+
		strings.ReplaceAll(d.CSIVolume("data", "", ""), "ReadWriteOnce", "ReadWriteOncePod"))
	n.MustStart()
	d.Start()
	app := n.AwaitRunning("app")

	other := harness.NewNode(t, n.Runtime)
	out, err := other.Command(other.Flags("--plugin-registration-dir",
		filepath.Join(n.Root, "plugins_registry"))...).CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || !strings.Contains(string(out),
		"another podstead uses "+filepath.Join(n.Root, "plugins")+" for CSI volumes") {
		t.Errorf("%v: %s, want an error that names the directory", err, out)
	}
	n.Restart()
	n.MustStillRun("app", app)
	d.AwaitCalls("data", "Stage", "Publish")
}

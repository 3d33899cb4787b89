package e2e

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podstead/podstead/test/testbed"
)

// Two daemons with the same drivers would publish a volume twice that is for one pod. The lock ends with the daemon,
// also if it is killed.
func TestCSIVolumesAreExclusive(t *testing.T) {
	t.Parallel()
	n := newNode(t, sharedRuntime(t, testbed.Containerd24))
	d := n.newCSIDriver("disk")
	d.volume("data")
	n.writeManifest("app.yaml", claimPod("app", "data")+strings.ReplaceAll(d.csiVolume("data", "", ""), "ReadWriteOnce", "ReadWriteOncePod"))
	n.start()
	d.start()
	app := n.awaitRunning("app")

	other := newNode(t, n.rt)
	out, err := other.Command(other.Flags("--plugin-registration-dir", filepath.Join(n.Root, "plugins_registry"))...).CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || !strings.Contains(string(out), "another podstead uses "+filepath.Join(n.Root, "plugins")+" for CSI volumes") {
		t.Errorf("%v: %s, want an error that names the directory", err, out)
	}
	n.restart()
	n.mustStillRun("app", app)
	d.awaitCalls("data", "Stage", "Publish")
}

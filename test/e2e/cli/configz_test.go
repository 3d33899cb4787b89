package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// What a daemon reports in /configz can be edited and used as --config: only the edit changes
// the meaning, and what runs keeps running.
func TestConfigzIsAConfigurationFile(t *testing.T) {
	t.Parallel()
	n := harness.NewNode(t, harness.SharedRuntime(t, testbed.Containerd24))
	n.WriteManifest("web.yaml", harness.SleepPod("web", "one"))
	n.MustStart()
	web := n.AwaitRunning("web")
	var fields map[string]any
	n.Await("the configuration has the cgroup driver, for which the runtime is asked", func() error {
		if fields = n.Configz(); fields["cgroupDriver"] == nil {
			return fmt.Errorf("%v", fields)
		}
		return nil
	})
	if fields["maxPods"] != 110.0 || fields["podPidsLimit"] != -1.0 {
		t.Errorf("reported: %v", fields)
	}
	fields["maxPods"], fields["podPidsLimit"] = 1.0, 123.0
	data, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	n.Args = append(n.Args, "--config", file)
	n.Restart()
	n.Await("the same configuration after the restart", func() error {
		if d := cmp.Diff(fields, n.Configz()); d != "" {
			return errors.New(d)
		}
		return nil
	})
	n.WriteManifest("other.yaml", harness.SleepPod("other", "two"))
	n.AwaitHeld("other", "OutOfpods")
	if again := n.AwaitRunning("web"); again.ID != web.ID {
		t.Errorf("web was restarted: %v, then %v", web, again)
	}
}

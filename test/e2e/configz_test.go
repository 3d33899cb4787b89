package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podstead/podstead/test/testbed"
)

// configz returns the configuration that the daemon reports.
func (n *node) configz() map[string]any {
	n.t.Helper()
	body, err := n.Get(n.t.Context(), "/configz")
	if err != nil {
		n.t.Fatal(err)
	}
	var answer struct {
		Config map[string]any `json:"kubeletconfig"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		n.t.Fatal(err)
	}
	return answer.Config
}

// What a daemon reports in /configz can be edited and used as --config: only the edit changes
// the meaning, and what runs keeps running.
func TestConfigzIsAConfigurationFile(t *testing.T) {
	t.Parallel()
	n := newNode(t, sharedRuntime(t, testbed.Containerd24))
	n.writeManifest("web.yaml", sleepPod("web", "one"))
	n.start()
	web := n.awaitRunning("web")
	var fields map[string]any
	n.await("the configuration has the cgroup driver, for which the runtime is asked", func() error {
		if fields = n.configz(); fields["cgroupDriver"] == nil {
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
	n.restart()
	n.await("the same configuration after the restart", func() error {
		if d := cmp.Diff(fields, n.configz()); d != "" {
			return errors.New(d)
		}
		return nil
	})
	n.writeManifest("other.yaml", sleepPod("other", "two"))
	n.awaitHeld("other", "OutOfpods")
	if again := n.awaitRunning("web"); again.ID != web.ID {
		t.Errorf("web was restarted: %v, then %v", web, again)
	}
}

package options

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/podstead/podstead/cmd/podstead/kubeletconfig"
)

// The configuration that a daemon reports can be used as its --config with the same result,
// and contains no secrets.
func TestConfigzRoundTrip(t *testing.T) {
	first, _, err := complete(t, "--manifest-url=http://user:secret@127.0.0.1/pods?key=secret", "--manifest-url-header=X:secret",
		"--client-ca-file=/ca.crt", "--read-only-port=10255", "--container-log-max-size=5Mi", "--system-reserved=cpu=500m", "--cluster-dns=10.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	reported := first.KubeletConfiguration()
	data, err := json.Marshal(reported)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(data), "secret") {
		t.Errorf("a secret is reported: %s", data)
	}
	path := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if c, err := kubeletconfig.Read(path); err != nil || len(c.Ignored) > 0 {
		t.Errorf("failed to read it: %v, ignored %v", err, c.Ignored)
	}
	second, notices, err := complete(t, "--config="+path, "--cgroup-root="+first.Cgroups.Root)
	if err != nil || len(notices) > 0 {
		t.Fatalf("failed to use it: %v %v", err, notices)
	}
	got := second.KubeletConfiguration()
	for name, want := range reported {
		// The URL has no secrets, and --cgroup-root overrides the cgroup root.
		if name != "staticPodURL" && name != "cgroupRoot" && !reflect.DeepEqual(got[name], want) {
			t.Errorf("%s is %v, was %v", name, got[name], want)
		}
	}
}

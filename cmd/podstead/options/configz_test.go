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

// TestConfigzCanBeReadAgain starts from what a daemon tells of itself: the same
// settings come of it, and nothing secret is told.
func TestConfigzCanBeReadAgain(t *testing.T) {
	first, _, err := complete(t, "--manifest-url=http://user:secret@127.0.0.1/pods?key=secret", "--manifest-url-header=X:secret",
		"--client-ca-file=/ca.crt", "--read-only-port=10255", "--container-log-max-size=5Mi", "--system-reserved=cpu=500m", "--cluster-dns=10.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	told := first.KubeletConfiguration()
	data, err := json.Marshal(told)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(data), "secret") {
		t.Errorf("a secret is told: %s", data)
	}
	path := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if c, err := kubeletconfig.Read(path); err != nil || len(c.Ignored) > 0 {
		t.Errorf("it cannot be read again: %v, ignored %v", err, c.Ignored)
	}
	second, notices, err := complete(t, "--config="+path, "--cgroup-root="+first.Cgroups.Root)
	if err != nil || len(notices) > 0 {
		t.Fatalf("it is refused: %v %v", err, notices)
	}
	again := second.KubeletConfiguration()
	for name, want := range told {
		// The address loses its secrets, the root of cgroups gets one of our own below.
		if name != "staticPodURL" && name != "cgroupRoot" && !reflect.DeepEqual(again[name], want) {
			t.Errorf("%s is %v, was %v", name, again[name], want)
		}
	}
}

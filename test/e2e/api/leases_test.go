package api

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podstead/podstead/node/ipam"
	"github.com/podstead/podstead/test/e2e/harness"
)

// A reservation that a power cut emptied is never released by the plugin host-local. The start
// of the daemon frees it, and the plugin assigns the address again.
func TestEmptyLeaseIsFreed(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		network := "leases-" + n.Name
		dir := filepath.Join(ipam.Directory, network)
		add := func(container string) (string, error) {
			cmd := exec.Command("/usr/lib/cni/host-local")
			cmd.Env = []string{"CNI_COMMAND=ADD", "CNI_CONTAINERID=" + container, "CNI_NETNS=/proc/self/ns/net",
				"CNI_IFNAME=eth0", "CNI_PATH=/usr/lib/cni"}
			cmd.Stdin = strings.NewReader(
				fmt.Sprintf(
					`{"cniVersion": "0.4.0", "name": %q, "type": "bridge", "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.99.0.0/29", "rangeStart": "10.99.0.2", "rangeEnd": "10.99.0.3"}]]}}`, network))
			out, err := cmd.Output()
			return string(out), err
		}
		for _, container := range []string{"one", "two"} {
			if out, err := add(container); err != nil {
				t.Fatal(err, out)
			}
		}
		if out, err := add("three"); err == nil {
			t.Fatalf("the network has another address: %s", out)
		}
		loseLease(n, filepath.Join(dir, "10.99.0.2"))
		n.MustStart()
		n.Await("the address is freed", func() error {
			if _, err := os.Stat(filepath.Join(dir, "10.99.0.2")); !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("the reservation is there: %v", err)
			}
			return nil
		})
		if out, err := add("three"); err != nil || !strings.Contains(out, "10.99.0.2/29") {
			t.Errorf("the plugin assigned %s, %v", out, err)
		}
	})
}

// loseLease empties a reservation as a power cut does. Daemons of other tests that start at this time
// free it as well, as all have the same networks.
func loseLease(n *harness.Node, reservation string) {
	n.T.Helper()
	long := time.Now().Add(-10000 * time.Hour)
	if err := errors.Join(os.Truncate(reservation, 0), os.Chtimes(reservation, long, long)); err != nil {
		n.T.Fatal(err)
	}
}

package harness

import (
	"path/filepath"
	"sync"
	"testing"

	"github.com/podstead/podstead/test/testbed"
)

// privateSocket is the socket of podstead's own containerd, relative to the directory of the
// daemon's socket.
const privateSocket = "containerd/containerd.sock"

// PrivateNetwork is held by a test whose private runtime has the network that the host has only once.
var PrivateNetwork sync.Mutex

// PrivateNode returns a node without an endpoint. Its runtime is stopped at the end of the
// test.
func PrivateNode(t *testing.T, kind testbed.Kind) *Node {
	t.Helper()
	b, err := testbed.NewNode(nodeName(), "")
	if err != nil {
		t.Fatal(err)
	}
	b.Env = []string{"PATH=" + kind.Path()}
	WriteAll(t, filepath.Join(b.Root, "containerd/certs.d/_default"),
		map[string]string{"hosts.toml": testbed.HostsTOML(Registry.Addr())})
	socket := filepath.Join(filepath.Dir(b.Socket()), privateSocket)
	cri, err := testbed.DialCRI(socket)
	if err != nil {
		t.Fatal(err)
	}
	n := &Node{Node: b, T: t, Runtime: &testbed.Runtime{Kind: kind, Socket: socket, CRI: cri}}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("end of the daemon's log:\n%s", LastLines(n.Log(), 40))
		}
		n.EndNameserver()
		if pid, err := Listener(socket); err == nil {
			n.RemovePods()
			KillProcess(t, pid)
		}
		_ = cri.Close()
	})
	return n
}

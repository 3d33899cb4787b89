package private

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A containerd whose network was removed is restarted with podstead's own; one that has a network is adopted.
func TestStartWithRemovedNetwork(t *testing.T) {
	cfg := testbed(t)
	cfg.CNIConfDir = filepath.Join(t.TempDir(), "net.d")
	if err := cfg.writeNetwork(cfg.CNIConfDir, []byte(networkText(prefixes(t, "10.99.0.0/16")))); err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	start := func() (pid int, own bool) {
		t.Helper()
		if err := New(cfg, exe, quiet()).Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, own, err := cfg.Network()
		if err != nil {
			t.Fatal(err)
		}
		return listenerOf(t, cfg), own
	}
	first, own := start()
	last := first
	t.Cleanup(func() { _ = syscall.Kill(last, syscall.SIGKILL) })
	if own {
		t.Fatal("the network of the host is not used")
	}
	if pid, own := start(); pid != first || own {
		t.Fatalf("a containerd with a network was not adopted: pid %d, then %d", first, pid)
	}
	if err := os.RemoveAll(cfg.CNIConfDir); err != nil {
		t.Fatal(err)
	}
	if last, own = start(); last == first || !own {
		t.Errorf("the containerd without a network was kept: pid %d, then %d, own %v", first, last, own)
	}
	second := last
	if last, _ = start(); last != second {
		t.Errorf("the containerd was restarted once more: pid %d, then %d", second, last)
	}
}

package stats

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/podstead/podstead/internal/treewalk"
	"github.com/podstead/podstead/internal/usage"
)

func TestDisks(t *testing.T) {
	m := newMachine(t)
	m.pod("a", "x", "y")
	content := strings.Repeat("x", 100_000)
	m.write("root/pods/a/volumes/kubernetes.io~empty-dir/scratch/deep/er/file", content)
	m.write("claims/data/file", content)
	m.link("root/pods/a/volumes/kubernetes.io~local-volume/data", m.path("claims/data"))
	m.write("root/pods/a/volumes/kubernetes.io~nfs/away/file", content)
	m.write("logs/default_a_a/x/0.log", content)
	m.write("root/pods/a/etc-hosts", content)
	m.write("root/pods/a/containers/x/message", content)
	m.write("layers/x", "")
	m.rt.containers = []usage.RuntimeContainer{
		{ID: "a-x", Writable: &usage.RuntimeFilesystem{Mount: m.path("layers"), Used: 5000, Inodes: 5}}}
	disks, err := m.collector().Disks(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	a := disks.Pods["a"]
	if len(a.Volumes) != 3 {
		t.Fatalf("volumes %+v", a.Volumes)
	}
	scratch, claim, share := a.Volumes[0], a.Volumes[1], a.Volumes[2]
	if scratch.Name != "scratch" || !scratch.Ephemeral || scratch.Used < 100_000 || scratch.Used > 130_000 ||
		scratch.InodesUsed != 4 || scratch.Available != 400 {
		t.Errorf("emptyDir %+v", scratch)
	}
	if claim.Ephemeral || claim.Used != 0 || claim.Path != m.path("claims/data") ||
		share.Path != m.path("root/pods/a/volumes/kubernetes.io~nfs/away") {
		t.Errorf("claim %+v, network file system %+v; they are measured apart", claim, share)
	}
	if len(a.Containers) != 1 || a.Containers[0].Rootfs.Used != 5000 || a.Containers[0].Rootfs.Capacity != 1000 ||
		a.Containers[0].Logs.Used < 100_000 {
		t.Errorf("containers %+v", a.Containers)
	}
	used, inodes := a.Ephemeral()
	if a.Files == nil || a.Files.Used < 200_000 || a.Files.Used > 240_000 || a.Files.InodesUsed != 4 {
		t.Errorf("files %+v", a.Files)
	}
	if used != scratch.Used+5000+a.Containers[0].Logs.Used+a.Files.Used || inodes != 4+5+2+4 {
		t.Errorf("ephemeral storage %d in %d", used, inodes)
	}
}

// The result must match du.
func TestWalkAsDu(t *testing.T) {
	m := newMachine(t)
	m.write("w/a/b/file", strings.Repeat("x", 50_000))
	m.write("w/empty", "")
	if err := os.Link(m.path("w/a/b/file"), m.path("w/again")); err != nil {
		t.Fatal(err)
	}
	m.link("w/out", "/")
	m.link("w/loop", ".")
	got, err := walk(t.Context(), m.path("w"))
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("du", "-s", "-B512", m.path("w")).Output()
	if err != nil {
		t.Fatal(err)
	}
	blocks, _, _ := strings.Cut(string(out), "\t")
	if want := blocks; got.bytes/512 != number(t, want) {
		t.Errorf("%d blocks, du says %s", got.bytes/512, want)
	}
	if got.inodes != 7 || got.incomplete {
		t.Errorf("%+v, want 7 inodes", got)
	}
}

func number(t *testing.T, text string) (n uint64) {
	t.Helper()
	for _, r := range text {
		if r < '0' || r > '9' {
			t.Fatalf("%q is no number", text)
		}
		n = n*10 + uint64(r-'0')
	}
	return n
}

func TestWalkCrossesNoMount(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	m := newMachine(t)
	m.write("w/in/file", "x")
	m.write("big/file", strings.Repeat("x", 1<<20))
	// The same device through another mount.
	if err := syscall.Mount(m.path("big"), m.path("w/in"), "", syscall.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(m.path("w/in"), syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	got, err := walk(t.Context(), m.path("w"))
	if err != nil {
		t.Fatal(err)
	}
	if got.bytes >= 1<<20 || got.inodes != 1 {
		t.Errorf("%+v: what is mounted there was counted", got)
	}
}

func TestWalkIsBounded(t *testing.T) {
	m := newMachine(t)
	m.write("w/"+strings.Repeat("d/", treewalk.MaxDepth+10)+"file", "x")
	got, err := walk(t.Context(), m.path("w"))
	if err != nil {
		t.Fatal(err)
	}
	if !got.incomplete || got.inodes != treewalk.MaxDepth+1 {
		t.Errorf("%+v", got)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := walk(ended, m.path("w")); err != nil || !got.incomplete {
		t.Errorf("after its time: %+v, %v", got, err)
	}
	if _, err := walk(t.Context(), m.path("nowhere")); err == nil {
		t.Error("a missing directory has a size")
	}
}

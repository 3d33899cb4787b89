package pressure

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/image"
	"github.com/podstead/podstead/test/testbed"
)

// pushLargeImage pushes an image with size bytes that do not compress.
func pushLargeImage(n *harness.Node, name string, size int) string {
	n.T.Helper()
	ref := fmt.Sprintf("docker.io/library/%s-%s:1", name, n.Name)
	var seed [32]byte
	copy(seed[:], ref)
	data := make([]byte, size)
	_, _ = rand.NewChaCha8(seed).Read(data) // never fails
	img, err := testbed.Busybox()
	if err != nil {
		n.T.Fatal(err)
	}
	archive, err := image.Tar([]image.File{{Name: "big", Data: data, Mode: 0o644}})
	if err == nil {
		err = harness.Registry.Push(ref, img.WithLayer(image.PlainLayer(archive)))
	}
	if err != nil {
		n.T.Fatal(err)
	}
	return ref
}

// usedPercent returns the usage of a directory's file system.
func usedPercent(t *testing.T, directory string) int {
	t.Helper()
	var s unix.Statfs_t
	if err := unix.Statfs(directory, &s); err != nil {
		t.Fatal(err)
	}
	return int(100 - s.Bavail*100/s.Blocks)
}

// watchUsage observes the highest usage of a directory's file system until stop.
func watchUsage(t *testing.T, directory string) (highest *atomic.Int64, stop func()) {
	highest = &atomic.Int64{}
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			var s unix.Statfs_t
			if err := unix.Statfs(directory, &s); err == nil {
				highest.Store(max(highest.Load(), int64(100-s.Bavail*100/s.Blocks)))
			}
			select {
			case <-ended:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	stop = sync.OnceFunc(func() { close(ended); <-done })
	t.Cleanup(stop)
	return highest, stop
}

// On a small image disk, the images that were used longest ago are removed until usage is
// below the low threshold, and every pod starts. An image that a manifest names stays, however
// long it was unused.
func TestImageGCOnAFullDisk(t *testing.T) {
	t.Parallel()
	const size = 24 << 20
	n := harness.PrivateNode(t, testbed.Containerd24)
	disk := filepath.Join(n.Root, "containerd")
	harness.MountDisk(t, disk, 320<<20)
	harness.WriteAll(t, filepath.Join(disk, "certs.d/_default"),
		map[string]string{"hosts.toml": testbed.HostsTOML(harness.Registry.Addr())})
	// Eviction would remove all unused images.
	// The address of the name server belongs to the test that holds PrivateNetwork.
	n.Args = []string{"--minimum-image-ttl-duration", "0s", "--image-gc-period", "1s", "--image-gc-high-threshold", "85",
		"--eviction-hard", "", "--pod-dns", "never"}
	n.MustStart()
	// It is pulled before all others, and its pod does not start because an object is missing.
	desired := pushLargeImage(n, "wanted", 1<<20)
	n.WriteManifest("wanted.yaml",
		strings.Replace(harness.ImagePod("wanted", desired, "hostNetwork: true"), "name: main",
			"name: main\n      envFrom: [{configMapRef: {name: none}}]", 1))
	if out, errs, status := n.Podstead("images", "pull", desired, "--api-socket", n.Socket()); status != 0 {
		t.Fatalf("images pull exited with %d: %s%s", status, out, errs)
	}
	var refs []string
	highest, stop := watchUsage(t, disk)
	// An image takes twice its size: compressed and unpacked.
	for i := range 10 {
		name := fmt.Sprint("big", i)
		refs = append(refs, pushLargeImage(n, name, size))
		manifest := strings.Replace(harness.SleepPod(name, "one"), testbed.BusyboxImage, refs[i], 1)
		n.WriteManifest(name+".yaml", strings.Replace(manifest, "spec:\n", "spec:\n  hostNetwork: true\n", 1))
		n.AwaitRunning(name)
		n.RemoveManifest(name + ".yaml")
		n.AwaitGone(name)
		n.Await("disk usage is below the threshold", func() error {
			if used := usedPercent(t, disk); used >= 85 {
				return fmt.Errorf("%d%% used", used)
			}
			return nil
		})
	}
	stop()
	if most := highest.Load(); most < 85 {
		t.Errorf("the disk was used to %d%% at most: nothing was tested", most)
	}
	if states, err := n.Images(); err != nil || states[desired] != "wanted" {
		t.Errorf("the image that a manifest names is %q: %v %v", states[desired], states, err)
	}
	if n.HasImage(refs[0]) || !n.HasImage(refs[9]) || !n.HasImage(refs[8]) {
		t.Errorf("images present: first %t, ninth %t, last %t", n.HasImage(refs[0]), n.HasImage(refs[8]), n.HasImage(refs[9]))
	}
}

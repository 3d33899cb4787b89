package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podstead/podstead/test/image"
	"github.com/podstead/podstead/test/testbed"
)

// mountDisk mounts a small private file system on a directory.
func mountDisk(t *testing.T, directory string, size int64) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "disk")
	if err := os.MkdirAll(directory, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, size); err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{{"mkfs.ext4", "-q", "-m", "0", file}, {"mount", "-o", "loop", file, directory}} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", command, err, out)
		}
	}
	// Processes that still use it exit after this.
	t.Cleanup(func() { _ = unix.Unmount(directory, unix.MNT_DETACH) })
}

// pushLargeImage pushes an image with size bytes that do not compress.
func (n *node) pushLargeImage(name string, size int) string {
	n.t.Helper()
	ref := fmt.Sprintf("docker.io/library/%s-%s:1", name, n.Name)
	var seed [32]byte
	copy(seed[:], ref)
	data := make([]byte, size)
	_, _ = rand.NewChaCha8(seed).Read(data) // never fails
	img, err := testbed.Busybox()
	if err != nil {
		n.t.Fatal(err)
	}
	archive, err := image.Tar([]image.File{{Name: "big", Data: data, Mode: 0o644}})
	if err == nil {
		err = registry.Push(ref, img.WithLayer(image.PlainLayer(archive)))
	}
	if err != nil {
		n.t.Fatal(err)
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
	n := privateNode(t, testbed.Containerd24)
	disk := filepath.Join(n.Root, "containerd")
	mountDisk(t, disk, 320<<20)
	writeAll(t, filepath.Join(disk, "certs.d/_default"), map[string]string{"hosts.toml": testbed.HostsTOML(registry.Addr())})
	// Eviction would remove all unused images.
	// The address of the name server belongs to the test that holds privateNetwork.
	n.Args = []string{"--minimum-image-ttl-duration", "0s", "--image-gc-period", "1s", "--image-gc-high-threshold", "85", "--eviction-hard", "", "--pod-dns", "never"}
	n.start()
	// It is pulled before all others, and its pod does not start because an object is missing.
	wanted := n.pushLargeImage("wanted", 1<<20)
	n.writeManifest("wanted.yaml", strings.Replace(imagePod("wanted", wanted, "hostNetwork: true"), "name: main", "name: main\n      envFrom: [{configMapRef: {name: none}}]", 1))
	if out, errs, status := n.podstead("images", "pull", wanted, "--api-socket", n.Socket()); status != 0 {
		t.Fatalf("images pull exited with %d: %s%s", status, out, errs)
	}
	var refs []string
	highest, stop := watchUsage(t, disk)
	// An image takes twice its size: compressed and unpacked.
	for i := range 10 {
		name := fmt.Sprint("big", i)
		refs = append(refs, n.pushLargeImage(name, size))
		manifest := strings.Replace(sleepPod(name, "one"), testbed.BusyboxImage, refs[i], 1)
		n.writeManifest(name+".yaml", strings.Replace(manifest, "spec:\n", "spec:\n  hostNetwork: true\n", 1))
		n.awaitRunning(name)
		n.removeManifest(name + ".yaml")
		n.awaitGone(name)
		n.await("disk usage is below the threshold", func() error {
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
	if states, err := n.images(); err != nil || states[wanted] != "wanted" {
		t.Errorf("the image that a manifest names is %q: %v %v", states[wanted], states, err)
	}
	if n.has(refs[0]) || !n.has(refs[9]) || !n.has(refs[8]) {
		t.Errorf("images present: first %t, ninth %t, last %t", n.has(refs[0]), n.has(refs[8]), n.has(refs[9]))
	}
}

package images

import (
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/image"
	"github.com/podstead/podstead/test/testbed"
)

// saveLayout writes an image as a gzipped tar of an OCI layout in which it has only a tag.
func saveLayout(t *testing.T, file string, img image.Image) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "layout")
	tagged := img.Descriptor()
	tagged.Annotations = map[string]string{"org.opencontainers.image.ref.name": "1"}
	for name, data := range image.Layout([]image.Descriptor{tagged}, img) {
		harness.WriteAll(t, filepath.Join(dir, filepath.Dir(name)), map[string]string{filepath.Base(name): string(data)})
	}
	if out, err := exec.Command("tar", "-C", dir, "-czf", file, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// checkLoadedPods loads images in each format and runs pods with image names that no registry
// has.
func checkLoadedPods(n *harness.Node) {
	n.T.Helper()
	dir := n.T.TempDir()
	host := "registry.nowhere.test:5000/" + n.Name
	docker, oci := filepath.Join(dir, "docker.tar"), filepath.Join(dir, "oci.tgz")
	first := harness.ImageWithFile(n.T, "first")
	harness.SaveImage(n.T, docker, host+"/docker:1", first)
	saveLayout(n.T, oci, harness.ImageWithFile(n.T, "second"))
	if out := n.LoadImages(docker); !strings.HasPrefix(out, "loaded "+host+"/docker:1 (") {
		n.T.Errorf("it prints %s", out)
	}
	n.WriteManifest("docker.yaml",
		strings.Replace(harness.ImagePod("docker", host+"/docker:1", ""), "name: main",
			"name: main\n      imagePullPolicy: Never", 1))
	n.LoadImages("--name", "loaded-"+n.Name+":1", oci)
	n.WriteManifest("oci.yaml", harness.ImagePod("oci", "loaded-"+n.Name+":1", ""))
	n.MustPrintIn(n.AwaitRunning("docker"), "first", "cat", "/etc/word")
	n.MustPrintIn(n.AwaitRunning("oci"), "second", "cat", "/etc/word")
	n.RemoveManifest("oci.yaml")
	n.AwaitGone("oci")
	n.Await("the states of images", func() error {
		states, err := n.Images()
		if err != nil || states[host+"/docker:1"] != "used" || states["docker.io/library/loaded-"+n.Name+":1"] != "unused" {
			return fmt.Errorf("%v %v", states, err)
		}
		return nil
	})
	// A loaded image counts as pulled: it is removed when no pod needs it.
	out, errs, status := n.Podstead("images", "prune", "--api-socket", n.Socket())
	if status != 0 || !strings.Contains(out, "loaded-"+n.Name+":1") || strings.Contains(out, "docker:1") ||
		n.HasImage("docker.io/library/loaded-"+n.Name+":1") {
		n.T.Errorf("images prune exited with %d: %s%s", status, out, errs)
	}
	// It is loaded again, from standard input.
	zipped, err := os.Open(oci)
	if err != nil {
		n.T.Fatal(err)
	}
	defer zipped.Close()
	plain, err := gzip.NewReader(zipped)
	if err != nil {
		n.T.Fatal(err)
	}
	cmd := n.Command("images", "load", "--name", "loaded-"+n.Name+":1", "-", "--api-socket", n.Socket())
	cmd.Stdin = plain
	if out, err := cmd.CombinedOutput(); err != nil || !n.HasImage("docker.io/library/loaded-"+n.Name+":1") {
		n.T.Errorf("images load - : %v: %s", err, out)
	}
}

// mustFailToLoad fails the test unless loading an archive fails with one line that contains a
// word.
func mustFailToLoad(n *harness.Node, file, want string) {
	n.T.Helper()
	out, errs, status := n.Podstead("images", "load", file, "--api-socket", n.Socket())
	errs = strings.TrimPrefix(errs, "loading "+file+"\n")
	if status != 1 || out != "" || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, want) {
		n.T.Errorf("images load %s exited with %d, want %q: %s%s", filepath.Base(file), status, want, out, errs)
	}
}

// checkInvalidArchives checks that each invalid archive is rejected with one clear line and
// changes nothing.
func checkInvalidArchives(n *harness.Node) {
	n.T.Helper()
	dir := n.T.TempDir()
	before, err := n.Images()
	if err != nil {
		n.T.Fatal(err)
	}
	whole, short, other := filepath.Join(dir, "whole.tar"), filepath.Join(dir, "short.tar"),
		filepath.Join(dir, "other.tar")
	img := harness.ImageWithFile(n.T, "third")
	harness.SaveImage(n.T, whole, "third:1", img)
	data, err := os.ReadFile(whole)
	if err == nil {
		err = os.WriteFile(short, data[:len(data)/2], 0o600)
	}
	if err != nil {
		n.T.Fatal(err)
	}
	img.Architecture = "s390x"
	harness.SaveImage(n.T, other, "third:1", img)
	mustFailToLoad(n, short, "truncated")
	mustFailToLoad(n, other, "it is for linux/s390x, and this machine is linux/")
	mustFailToLoad(n, filepath.Join(n.Manifests, "docker.yaml"), "not a tar archive")
	after, err := n.Images()
	if err != nil {
		n.T.Fatal(err)
	}
	for tag := range after {
		// Other tests pull and remove images in the same runtime.
		if _, was := before[tag]; !was && strings.Contains(tag, "third") {
			n.T.Errorf("%s was loaded", tag)
		}
	}
	if left, err := os.ReadDir(filepath.Join(n.Root, "load")); err != nil || len(left) != 0 {
		n.T.Errorf("left behind: %v %v", left, err)
	}
}

// Images are loaded from archives into an existing containerd by the podstead command.
func TestImagesAreLoaded(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.Args = []string{"--minimum-image-ttl-duration", "0s"}
		n.MustStart()
		checkLoadedPods(n)
		checkInvalidArchives(n)
	})
}

// What eviction keeps free of a disk is not used for archives, and no more than that stays free: with lower thresholds
// an archive is loaded on a disk that is nearly full.
func TestArchivesLeaveTheDiskFree(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		const free, size = 90 << 20, 1000 << 20
		harness.MountDisk(t, n.Root, size)
		var disk unix.Statfs_t
		if err := unix.Statfs(n.Root, &disk); err != nil {
			t.Fatal(err)
		}
		file, err := os.Create(filepath.Join(n.Root, "fill"))
		if err == nil {
			err = unix.Fallocate(int(file.Fd()), 0, 0, int64(disk.Bavail)*disk.Bsize-free)
		}
		if err := errors.Join(err, file.Close()); err != nil {
			t.Fatal(err)
		}
		archive := filepath.Join(t.TempDir(), "image.tar")
		harness.SaveImage(t, archive, "full-"+n.Name+":1", harness.ImageWithFile(t, "full"))
		n.MustStart() // the test bed's thresholds are 1%
		n.LoadImages(archive)
		n.Kill()
		n.Args = []string{"--eviction-hard", "nodefs.available<80Mi"}
		n.MustStart()
		n.CLI(1, []string{"not enough free space", "of which 80 MiB stay free", "evictionHard nodefs.available<80Mi"},
			"images", "load", archive)
	})
}

// On a machine without a network even the sandbox image is loaded from an archive.
func TestImagesAreLoadedIntoThePrivateRuntime(t *testing.T) {
	t.Parallel()
	harness.PrivateNetwork.Lock()
	defer harness.PrivateNetwork.Unlock()
	for _, kind := range testbed.Kinds() {
		t.Run(string(kind), func(t *testing.T) { // not in parallel: the host has only one such network
			n := harness.PrivateNode(t, kind)
			// No registry is reachable here.
			if err := os.RemoveAll(filepath.Join(n.Root, "containerd/certs.d/_default")); err != nil {
				t.Fatal(err)
			}
			n.Args = []string{"--pod-infra-container-image", "pause.test/pause:1", "--minimum-image-ttl-duration", "0s"}
			n.MustStart()
			pause := filepath.Join(t.TempDir(), "pause.tar")
			img, err := testbed.Pause()
			if err != nil {
				t.Fatal(err)
			}
			harness.SaveImage(t, pause, "pause.test/pause:1", img)
			n.LoadImages(pause)
			checkLoadedPods(n)
			checkInvalidArchives(n)
			states, err := n.Images()
			if err != nil || states["pause.test/pause:1"] != "sandbox" && states["pause.test/pause:1"] != "pinned" {
				t.Errorf("images are %v: %v", states, err)
			}
			if to, err := os.Readlink(filepath.Join(filepath.Dir(n.Runtime.Socket), "registries")); err != nil ||
				to != filepath.Join(n.Root, "containerd/certs.d") {
				t.Errorf("the settings of registries are %s: %v", to, err)
			}
		})
	}
}

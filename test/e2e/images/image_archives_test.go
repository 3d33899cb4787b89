package images

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// copyArchive puts an archive into the node's directory of archives as a copy does that takes
// a while: half is called when half of it is there.
func copyArchive(n *harness.Node, from, name string, half func()) string {
	n.T.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		n.T.Fatal(err)
	}
	path := filepath.Join(n.Root, "image-archives", name)
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		n.T.Fatal(err)
	}
	defer file.Close()
	if _, err := file.Write(data[:len(data)/2]); err != nil {
		n.T.Fatal(err)
	}
	half()
	if _, err := file.Write(data[len(data)/2:]); err != nil {
		n.T.Fatal(err)
	}
	return path
}

// awaitImageState waits until an image is in a state of garbage collection.
func awaitImageState(n *harness.Node, image, want string) {
	n.T.Helper()
	n.Await(image+" to be "+want, func() error {
		states, err := n.Images()
		if err != nil || states[image] != want {
			return fmt.Errorf("%q %v", states[image], err)
		}
		return nil
	})
}

// checkImageArchives runs pods whose images exist only as archives in the node's directory.
func checkImageArchives(n *harness.Node) {
	n.T.Helper()
	host := "registry.nowhere.test:5000/" + n.Name
	web, always := host+"/web:1", host+"/always:latest"
	saved := n.T.TempDir()
	first, second := filepath.Join(saved, "web.tar"), filepath.Join(saved, "always.tar")
	harness.SaveImage(n.T, first, web, harness.ImageWithFile(n.T, "first"))
	harness.SaveImage(n.T, second, always, harness.ImageWithFile(n.T, "second"))

	// The pod is there before its image: it starts when the copy is complete, not before.
	n.WriteManifest("web.yaml", harness.ImagePod("web", web, ""))
	n.AwaitWaiting("web", "ImagePull")
	path := copyArchive(n, first, "web.tar", func() {
		n.AwaitStatusLine(1, "Archives: "+n.Root+"/image-archives: 1 Incomplete")
		if n.HasImage(web) {
			n.T.Error("half an archive was loaded")
		}
	})
	n.MustPrintIn(n.AwaitRunning("web"), "first", "cat", "/etc/word")
	// The archive is there before the pod, whose policy is Always because of its tag.
	copyArchive(n, second, "always.tar", func() {})
	n.WriteManifest("always.yaml", harness.ImagePod("always", always, ""))
	n.MustPrintIn(n.AwaitRunning("always"), "second", "cat", "/etc/word")
	n.Await("the event", func() error {
		if said := strings.Join(n.NodeEvents("ImageArchiveLoaded"), "\n"); !strings.Contains(said, web) ||
			!strings.Contains(said, always) {
			return fmt.Errorf("events: %s", said)
		}
		return nil
	})

	// Garbage collection leaves the image alone as long as the archive is there. If the
	// runtime loses it, it is loaded again.
	n.RemoveManifest("web.yaml")
	n.AwaitGone("web")
	awaitImageState(n, web, "wanted")
	if out, errs, status := n.Podstead("images", "prune", "--api-socket", n.Socket()); status != 0 ||
		strings.Contains(out, web) || !n.HasImage(web) {
		n.T.Errorf("images prune exited with %d: %s%s", status, out, errs)
	}
	if _, err := n.Runtime.CRI.Images.RemoveImage(n.T.Context(),
		&runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: web}}); err != nil {
		n.T.Fatal(err)
	}
	n.WriteManifest("web.yaml", harness.ImagePod("web", web, ""))
	n.MustPrintIn(n.AwaitRunning("web"), "first", "cat", "/etc/word")
	n.RemoveManifest("web.yaml")
	n.AwaitGone("web")

	// A broken archive is a fault with a remedy, and harms nothing.
	broken := copyArchive(n, first, "broken.tar", func() {})
	if err := os.Truncate(broken, 5000); err != nil {
		n.T.Fatal(err)
	}
	if err := os.Rename(broken, broken+".tar"); err != nil { // truncation alone is no event
		n.T.Fatal(err)
	}
	n.AwaitStatusLine(1, "fault:", "broken.tar.tar: the archive is truncated; copy or create it again")
	if err := os.Remove(broken + ".tar"); err != nil {
		n.T.Fatal(err)
	}
	n.AwaitStatusLine(0, "image-archives: 2 Loaded")

	if err := os.Remove(path); err != nil {
		n.T.Fatal(err)
	}
	awaitImageState(n, web, "unused")
	if out, errs, status := n.Podstead("images", "prune", "--api-socket", n.Socket()); status != 0 ||
		!strings.Contains(out, web) || n.HasImage(web) {
		n.T.Errorf("images prune exited with %d: %s%s", status, out, errs)
	}
}

// A pod whose image exists only as an archive starts from it, without a registry.
func TestImageArchivesDirectory(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.Args = []string{"--minimum-image-ttl-duration", "0s"}
		n.MustStart()
		checkImageArchives(n)
	})
}

// A machine that never had a network starts from archives that were put there before the first
// start, the sandbox image included.
func TestImageArchivesDirectoryOfThePrivateRuntime(t *testing.T) {
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
			dir := filepath.Join(n.Root, "image-archives")
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			img, err := testbed.Pause()
			if err != nil {
				t.Fatal(err)
			}
			harness.SaveImage(t, filepath.Join(dir, "pause.tar"), "pause.test/pause:1", img)
			harness.SaveImage(t, filepath.Join(dir, "web.tar"), "web.test/web:1", harness.ImageWithFile(t, "first"))
			n.WriteManifest("web.yaml", harness.ImagePod("web", "web.test/web:1", ""))
			n.MustStart()
			n.MustPrintIn(n.AwaitRunning("web"), "first", "cat", "/etc/word")
		})
	}
}

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstead/podstead/test/testbed"
)

// copyArchive puts an archive into the node's directory of archives as a copy does that takes
// a while: half is called when half of it is there.
func (n *node) copyArchive(from, name string, half func()) string {
	n.t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		n.t.Fatal(err)
	}
	path := filepath.Join(n.Root, "image-archives", name)
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		n.t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.Write(data[:len(data)/2]); err != nil {
		n.t.Fatal(err)
	}
	half()
	if _, err := file.Write(data[len(data)/2:]); err != nil {
		n.t.Fatal(err)
	}
	return path
}

// awaitImageState waits until an image is in a state of garbage collection.
func (n *node) awaitImageState(image, want string) {
	n.t.Helper()
	n.await(image+" to be "+want, func() error {
		states, err := n.images()
		if err != nil || states[image] != want {
			return fmt.Errorf("%q %v", states[image], err)
		}
		return nil
	})
}

// checkImageArchives runs pods whose images exist only as archives in the node's directory.
func (n *node) checkImageArchives() {
	n.t.Helper()
	host := "registry.nowhere.test:5000/" + n.Name
	web, always := host+"/web:1", host+"/always:latest"
	saved := n.t.TempDir()
	first, second := filepath.Join(saved, "web.tar"), filepath.Join(saved, "always.tar")
	saveImage(n.t, first, web, imageWithFile(n.t, "first"))
	saveImage(n.t, second, always, imageWithFile(n.t, "second"))

	// The pod is there before its image: it starts when the copy is complete, not before.
	n.writeManifest("web.yaml", imagePod("web", web, ""))
	n.awaitWaiting("web", "ImagePull")
	path := n.copyArchive(first, "web.tar", func() {
		n.awaitStatusLine(1, "Archives: "+n.Root+"/image-archives: 1 Incomplete")
		if n.has(web) {
			n.t.Error("half an archive was loaded")
		}
	})
	n.mustPrintIn(n.awaitRunning("web"), "first", "cat", "/etc/word")
	// The archive is there before the pod, whose policy is Always because of its tag.
	n.copyArchive(second, "always.tar", func() {})
	n.writeManifest("always.yaml", imagePod("always", always, ""))
	n.mustPrintIn(n.awaitRunning("always"), "second", "cat", "/etc/word")
	n.await("the event", func() error {
		if said := strings.Join(n.nodeEvents("ImageArchiveLoaded"), "\n"); !strings.Contains(said, web) || !strings.Contains(said, always) {
			return fmt.Errorf("events: %s", said)
		}
		return nil
	})

	// Garbage collection leaves the image alone as long as the archive is there. If the
	// runtime loses it, it is loaded again.
	n.removeManifest("web.yaml")
	n.awaitGone("web")
	n.awaitImageState(web, "wanted")
	if out, errs, status := n.podstead("images", "prune", "--api-socket", n.Socket()); status != 0 || strings.Contains(out, web) || !n.has(web) {
		n.t.Errorf("images prune exited with %d: %s%s", status, out, errs)
	}
	if _, err := n.rt.CRI.Images.RemoveImage(n.t.Context(), &runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: web}}); err != nil {
		n.t.Fatal(err)
	}
	n.writeManifest("web.yaml", imagePod("web", web, ""))
	n.mustPrintIn(n.awaitRunning("web"), "first", "cat", "/etc/word")
	n.removeManifest("web.yaml")
	n.awaitGone("web")

	// A broken archive is a fault with a remedy, and harms nothing.
	broken := n.copyArchive(first, "broken.tar", func() {})
	if err := os.Truncate(broken, 5000); err != nil {
		n.t.Fatal(err)
	}
	if err := os.Rename(broken, broken+".tar"); err != nil { // truncation alone is no event
		n.t.Fatal(err)
	}
	n.awaitStatusLine(1, "fault:", "broken.tar.tar: the archive is truncated; copy or create it again")
	if err := os.Remove(broken + ".tar"); err != nil {
		n.t.Fatal(err)
	}
	n.awaitStatusLine(0, "image-archives: 2 Loaded")

	if err := os.Remove(path); err != nil {
		n.t.Fatal(err)
	}
	n.awaitImageState(web, "unused")
	if out, errs, status := n.podstead("images", "prune", "--api-socket", n.Socket()); status != 0 || !strings.Contains(out, web) || n.has(web) {
		n.t.Errorf("images prune exited with %d: %s%s", status, out, errs)
	}
}

// A pod whose image exists only as an archive starts from it, without a registry.
func TestImageArchivesDirectory(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		n.Args = []string{"--minimum-image-ttl-duration", "0s"}
		n.start()
		n.checkImageArchives()
	})
}

// A machine that never had a network starts from archives that were put there before the first
// start, the sandbox image included.
func TestImageArchivesDirectoryOfThePrivateRuntime(t *testing.T) {
	t.Parallel()
	privateNetwork.Lock()
	defer privateNetwork.Unlock()
	for _, kind := range testbed.Kinds() {
		t.Run(string(kind), func(t *testing.T) { // not in parallel: the host has only one such network
			n := privateNode(t, kind)
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
			saveImage(t, filepath.Join(dir, "pause.tar"), "pause.test/pause:1", img)
			saveImage(t, filepath.Join(dir, "web.tar"), "web.test/web:1", imageWithFile(t, "first"))
			n.writeManifest("web.yaml", imagePod("web", "web.test/web:1", ""))
			n.start()
			n.mustPrintIn(n.awaitRunning("web"), "first", "cat", "/etc/word")
		})
	}
}

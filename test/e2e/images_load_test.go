package e2e

import (
	"compress/gzip"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podstead/podstead/test/image"
	"github.com/podstead/podstead/test/testbed"
)

// saveImage writes an image as docker save does.
func saveImage(t *testing.T, file, ref string, img image.Image) {
	t.Helper()
	data, err := image.DockerArchive(map[string]image.Image{ref: img})
	if err == nil {
		err = os.WriteFile(file, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// saveLayout writes an image as a gzipped tar of an OCI layout in which it has only a tag.
func saveLayout(t *testing.T, file string, img image.Image) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "layout")
	tagged := img.Descriptor()
	tagged.Annotations = map[string]string{"org.opencontainers.image.ref.name": "1"}
	for name, data := range image.Layout([]image.Descriptor{tagged}, img) {
		writeAll(t, filepath.Join(dir, filepath.Dir(name)), map[string]string{filepath.Base(name): string(data)})
	}
	if out, err := exec.Command("tar", "-C", dir, "-czf", file, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// imageWithFile returns busybox with the file /etc/word. It is an image of this test alone: tests
// at the same runtime would use each other's images if these were equal.
func imageWithFile(t *testing.T, word string) image.Image {
	t.Helper()
	img, err := testbed.Busybox()
	if err == nil {
		img, err = testbed.WithFiles(img, map[string]string{"etc/word": word, "etc/test": t.Name()})
	}
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// loadImages loads an archive and fails the test unless the images are printed.
func (n *node) loadImages(args ...string) (out string) {
	n.t.Helper()
	out, errs, status := n.podstead(append([]string{"images", "load", "--api-socket", n.Socket()}, args...)...)
	if status != 0 {
		n.t.Fatalf("images load %v exited with %d: %s%s", args, status, out, errs)
	}
	return out
}

// checkLoadedPods loads images in each format and runs pods with image names that no registry
// has.
func (n *node) checkLoadedPods() {
	n.t.Helper()
	dir := n.t.TempDir()
	host := "registry.nowhere.test:5000/" + n.Name
	docker, oci := filepath.Join(dir, "docker.tar"), filepath.Join(dir, "oci.tgz")
	first := imageWithFile(n.t, "first")
	saveImage(n.t, docker, host+"/docker:1", first)
	saveLayout(n.t, oci, imageWithFile(n.t, "second"))
	if out := n.loadImages(docker); !strings.HasPrefix(out, "loaded "+host+"/docker:1 (") {
		n.t.Errorf("it prints %s", out)
	}
	n.writeManifest("docker.yaml", strings.Replace(imagePod("docker", host+"/docker:1", ""), "name: main", "name: main\n      imagePullPolicy: Never", 1))
	n.loadImages("--name", "loaded-"+n.Name+":1", oci)
	n.writeManifest("oci.yaml", imagePod("oci", "loaded-"+n.Name+":1", ""))
	n.mustPrintIn(n.awaitRunning("docker"), "first", "cat", "/etc/word")
	n.mustPrintIn(n.awaitRunning("oci"), "second", "cat", "/etc/word")
	n.removeManifest("oci.yaml")
	n.awaitGone("oci")
	n.await("the states of images", func() error {
		states, err := n.images()
		if err != nil || states[host+"/docker:1"] != "used" || states["docker.io/library/loaded-"+n.Name+":1"] != "unused" {
			return fmt.Errorf("%v %v", states, err)
		}
		return nil
	})
	// A loaded image counts as pulled: it is removed when no pod needs it.
	out, errs, status := n.podstead("images", "prune", "--api-socket", n.Socket())
	if status != 0 || !strings.Contains(out, "loaded-"+n.Name+":1") || strings.Contains(out, "docker:1") || n.has("docker.io/library/loaded-"+n.Name+":1") {
		n.t.Errorf("images prune exited with %d: %s%s", status, out, errs)
	}
	// It is loaded again, from standard input.
	zipped, err := os.Open(oci)
	if err != nil {
		n.t.Fatal(err)
	}
	defer zipped.Close()
	plain, err := gzip.NewReader(zipped)
	if err != nil {
		n.t.Fatal(err)
	}
	cmd := n.Command("images", "load", "--name", "loaded-"+n.Name+":1", "-", "--api-socket", n.Socket())
	cmd.Stdin = plain
	if out, err := cmd.CombinedOutput(); err != nil || !n.has("docker.io/library/loaded-"+n.Name+":1") {
		n.t.Errorf("images load - : %v: %s", err, out)
	}
}

// mustFailToLoad fails the test unless loading an archive fails with one line that contains a
// word.
func (n *node) mustFailToLoad(file, want string) {
	n.t.Helper()
	out, errs, status := n.podstead("images", "load", file, "--api-socket", n.Socket())
	errs = strings.TrimPrefix(errs, "loading "+file+"\n")
	if status != 1 || out != "" || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, want) {
		n.t.Errorf("images load %s exited with %d, want %q: %s%s", filepath.Base(file), status, want, out, errs)
	}
}

// checkInvalidArchives checks that each invalid archive is rejected with one clear line and
// changes nothing.
func (n *node) checkInvalidArchives() {
	n.t.Helper()
	dir := n.t.TempDir()
	before, err := n.images()
	if err != nil {
		n.t.Fatal(err)
	}
	whole, short, other := filepath.Join(dir, "whole.tar"), filepath.Join(dir, "short.tar"), filepath.Join(dir, "other.tar")
	img := imageWithFile(n.t, "third")
	saveImage(n.t, whole, "third:1", img)
	data, err := os.ReadFile(whole)
	if err == nil {
		err = os.WriteFile(short, data[:len(data)/2], 0o600)
	}
	if err != nil {
		n.t.Fatal(err)
	}
	img.Architecture = "s390x"
	saveImage(n.t, other, "third:1", img)
	n.mustFailToLoad(short, "truncated")
	n.mustFailToLoad(other, "it is for linux/s390x, and this machine is linux/")
	n.mustFailToLoad(filepath.Join(n.Manifests, "docker.yaml"), "not a tar archive")
	after, err := n.images()
	if err != nil {
		n.t.Fatal(err)
	}
	for tag := range after {
		// Other tests pull and remove images in the same runtime.
		if _, was := before[tag]; !was && strings.Contains(tag, "third") {
			n.t.Errorf("%s was loaded", tag)
		}
	}
	if left, err := os.ReadDir(filepath.Join(n.Root, "load")); err != nil || len(left) != 0 {
		n.t.Errorf("left behind: %v %v", left, err)
	}
}

// Images are loaded from archives into an existing containerd by the podstead command.
func TestImagesAreLoaded(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		n.Args = []string{"--minimum-image-ttl-duration", "0s"}
		n.start()
		n.checkLoadedPods()
		n.checkInvalidArchives()
	})
}

// On a machine without a network even the sandbox image is loaded from an archive.
func TestImagesAreLoadedIntoThePrivateRuntime(t *testing.T) {
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
			n.start()
			pause := filepath.Join(t.TempDir(), "pause.tar")
			img, err := testbed.Pause()
			if err != nil {
				t.Fatal(err)
			}
			saveImage(t, pause, "pause.test/pause:1", img)
			n.loadImages(pause)
			n.checkLoadedPods()
			n.checkInvalidArchives()
			states, err := n.images()
			if err != nil || states["pause.test/pause:1"] != "sandbox" && states["pause.test/pause:1"] != "pinned" {
				t.Errorf("images are %v: %v", states, err)
			}
			if to, err := os.Readlink(filepath.Join(filepath.Dir(n.rt.Socket), "registries")); err != nil || to != filepath.Join(n.Root, "containerd/certs.d") {
				t.Errorf("the settings of registries are %s: %v", to, err)
			}
		})
	}
}

package rollouts

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstead/podstead/api"
	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/image"
)

// updatedPod is a pod that is updated, and exits at once with an image whose word is bad.
func updatedPod(mode, ref, environment, spec string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata:
  name: app
  annotations: {podstead.io/auto-update: %s, podstead.io/max-container-restart-period: 1s}
spec:
  terminationGracePeriodSeconds: 1
  %s
  containers:
  - name: main
    image: %s
    env: [{name: REVISION, value: %q}]
    command: [sh, -c, "grep -q bad /etc/word && exit 1; trap 'exit 0' TERM; sleep 100000 & wait"]
`, mode, spec, ref, environment)
}

// pushWord moves a tag to an index with an image for this machine, whose /etc/word is the word,
// and one for another platform.
func pushWord(t *testing.T, ref, word string) (img image.Image, digest string) {
	t.Helper()
	img = harness.ImageWithFile(t, word)
	other := img
	other.Architecture = "s390x"
	digest, err := harness.Registry.PushIndex(ref, other, img)
	if err != nil {
		t.Fatal(err)
	}
	return img, digest
}

// autoUpdate runs podstead auto-update and returns the result for the container main.
func autoUpdate(n *harness.Node, args ...string) api.ContainerImageUpdate {
	n.T.Helper()
	out, errs, status := n.Podstead(append([]string{"auto-update", "-o", "json", "--api-socket", n.Socket()}, args...)...)
	var list []api.AutoUpdate
	if err := json.Unmarshal([]byte(out), &list); err != nil || len(list) != 1 || len(list[0].Containers) != 1 {
		n.T.Fatalf("auto-update %v exited with %d: %v\n%s%s", args, status, err, out, errs)
	}
	c := list[0].Containers[0]
	if want := map[bool]int{true: 1}[c.State == api.UpdateFailed]; status != want {
		n.T.Errorf("auto-update %v exited with %d, want %d: %s", args, status, want, out)
	}
	return c
}

// awaitUpdate waits until what is known of the container main has a state.
func awaitUpdate(n *harness.Node, state string) api.ContainerImageUpdate {
	n.T.Helper()
	var c api.ContainerImageUpdate
	n.Await("the image update is "+state, func() error {
		body, err := n.Get(n.T.Context(), "/podstead/v1/auto-update")
		var list []api.AutoUpdate
		if err == nil {
			err = json.Unmarshal(body, &list)
		}
		if err != nil || len(list) != 1 || len(list[0].Containers) != 1 || list[0].Containers[0].State != state {
			return fmt.Errorf("%s: %v", body, err)
		}
		c = list[0].Containers[0]
		return nil
	})
	return c
}

// awaitWord waits until an instance runs in which a command prints a word, and returns it.
func awaitWord(n *harness.Node, word, command string) (main harness.Instance) {
	n.T.Helper()
	n.Await("an instance prints "+word, func() error {
		found, err := n.Running("app")
		if err != nil {
			return err
		}
		if main = found["main"]; main.ID == "" {
			return fmt.Errorf("running: %v", found)
		}
		out, err := n.Runtime.CRI.Exec(n.T.Context(), main.ID, "sh", "-c", command)
		if got := strings.TrimSpace(out); err == nil && got != word {
			err = fmt.Errorf("it prints %q", got)
		}
		return err
	})
	return main
}

const catWord = "cat /etc/word"

// awaitUpdated waits until an instance with the word runs and the update has ended.
func awaitUpdated(n *harness.Node, word string) harness.Instance {
	n.T.Helper()
	main := awaitWord(n, word, catWord)
	if got := awaitUpdate(n, "Current"); got.Running != got.Latest {
		n.T.Errorf("%+v", got)
	}
	return main
}

// imageID returns the ID of the image that the runtime has under a name, empty if none.
func imageID(n *harness.Node, ref string) string {
	n.T.Helper()
	response, err := n.Runtime.CRI.Images.ImageStatus(n.T.Context(),
		&runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: ref}})
	if err != nil {
		n.T.Fatal(err)
	}
	return response.GetImage().GetId()
}

// A tag that moves at its registry, which requires a login, is shown by --dry-run and replaces
// the pod on request; that holds over a restart of the daemon and an edit of the manifest. An
// image that does not start is rolled back, and not tried again. A tag that is removed ends
// nothing.
func TestAutoUpdateFromRegistry(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		repository, password := "update-"+n.Name+"/app", "pass-word-"+n.Name
		ref := harness.Registry.Addr() + "/" + repository + ":1"
		_, first := pushWord(t, ref, "one")
		harness.Registry.Protect(repository, "bob", password)
		n.WriteManifest("login.yaml", harness.PullSecret("login",
			harness.DockerConfig(harness.Registry.Addr(), "bob", password)))
		n.WriteManifest("app.yaml", updatedPod("registry", ref, "1", "imagePullSecrets: [{name: login}]"))
		n.MustStart()
		n.AwaitReady("app")
		main := n.AwaitRunning("app")
		if got := autoUpdate(n, "app"); got.State != "Current" || got.Running != first || got.Latest != first {
			t.Fatalf("%+v, want %s", got, first)
		}
		second, digest := pushWord(t, ref, "two")
		if got := autoUpdate(n, "--dry-run"); got.State != "Available" || got.Running != first || got.Latest != digest {
			t.Fatalf("%+v, want %s", got, digest)
		}
		n.MustStillRun("app", main)
		autoUpdate(n)
		main = awaitUpdated(n, "two")
		list, err := n.Runtime.CRI.Containers(t.Context(), "io.kubernetes.pod.name", n.PodName("app"))
		if err != nil || len(list) == 0 || list[0].ImageRef != second.ID() {
			t.Errorf("the runtime has %v, want image %s (%v)", list, second.ID(), err)
		}
		n.Await("the tag in the runtime moves", func() error {
			if id := imageID(n, ref); id != second.ID() {
				return fmt.Errorf("it is at %s, want %s", id, second.ID())
			}
			return nil
		})
		n.Restart()
		n.AwaitReady("app")
		n.MustStillRun("app", main)
		if got := autoUpdate(n); got.State != "Current" || got.Running != digest {
			t.Errorf("after a restart of the daemon: %+v", got)
		}

		_, bad := pushWord(t, ref, "bad")
		n.Await("the update begins", func() error {
			// The daemon that was killed may not have stored the end of the rollout.
			if got := autoUpdate(n); got.State != "Updating" {
				return fmt.Errorf("%+v", got)
			}
			return nil
		})
		if got := awaitUpdate(n, "RolledBack"); got.Latest != bad || got.Message == "" {
			t.Errorf("%+v", got)
		}
		main = awaitWord(n, "two", catWord)
		if got := autoUpdate(n); got.State != "RolledBack" {
			t.Errorf("an image that was rolled back is tried again: %+v", got)
		}
		n.MustStillRun("app", main)

		n.WriteManifest("app.yaml", updatedPod("registry", ref, "2", "imagePullSecrets: [{name: login}]"))
		main = awaitWord(n, "two 2", "echo $(cat /etc/word) $REVISION")
		if err := harness.Registry.Untag(ref); err != nil {
			t.Fatal(err)
		}
		if got := autoUpdate(n); got.State != "Failed" || !strings.Contains(got.Message, "the running image is kept") {
			t.Errorf("without the tag: %+v", got)
		}
		n.MustStillRun("app", main)
		n.MustNotLog(password)
	})
}

// An image that is loaded under the name of a pod's image replaces the pod at once. One that
// does not start is rolled back to the image that ran, although its name is the other's now.
func TestAutoUpdateFromLoadedImages(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		ref := "registry.nowhere.test/update-" + n.Name + ":1"
		load := func(word string) {
			file := filepath.Join(t.TempDir(), "image.tar")
			harness.SaveImage(t, file, ref, harness.ImageWithFile(t, word))
			n.LoadImages(file)
		}
		n.WriteManifest("app.yaml", updatedPod("local", ref, "1", "restartPolicy: Always"))
		n.MustStart()
		load("one")
		n.AwaitReady("app")
		load("two")
		awaitUpdated(n, "two")
		load("bad")
		awaitUpdate(n, "RolledBack")
		main := awaitWord(n, "two", catWord)
		n.Restart()
		n.AwaitReady("app")
		n.MustStillRun("app", main)
		load("three")
		awaitUpdated(n, "three")
	})
}

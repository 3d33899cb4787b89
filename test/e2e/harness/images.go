package harness

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstead/podstead/test/image"
	"github.com/podstead/podstead/test/testbed"
)

// HasImage reports whether the runtime has an image.
func (n *Node) HasImage(ref string) bool {
	n.T.Helper()
	r, err := n.Runtime.CRI.Images.ImageStatus(n.T.Context(),
		&runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: ref}})
	if err != nil {
		n.T.Fatal(err)
	}
	return r.Image != nil
}

// Images returns the states of the runtime's images by name.
func (n *Node) Images() (states map[string]string, err error) {
	n.T.Helper()
	body, err := n.Get(n.T.Context(), "/podstead/v1/images")
	if err != nil {
		return nil, err
	}
	var list []struct {
		State string
		Tags  []string
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, err
	}
	states = map[string]string{}
	for _, i := range list {
		for _, tag := range i.Tags {
			states[tag] = i.State
		}
	}
	return states, nil
}

// SaveImage writes an image as docker save does.
func SaveImage(t *testing.T, file, ref string, img image.Image) {
	t.Helper()
	data, err := image.DockerArchive(map[string]image.Image{ref: img})
	if err == nil {
		err = os.WriteFile(file, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// ImageWithFile returns busybox with the file /etc/word. It is an image of this test alone: tests
// at the same runtime would use each other's images if these were equal.
func ImageWithFile(t *testing.T, word string) image.Image {
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

// LoadImages loads an archive and fails the test unless the images are printed.
func (n *Node) LoadImages(args ...string) (out string) {
	n.T.Helper()
	out, errs, status := n.Podstead(append([]string{"images", "load", "--api-socket", n.Socket()}, args...)...)
	if status != 0 {
		n.T.Fatalf("images load %v exited with %d: %s%s", args, status, out, errs)
	}
	return out
}

// Push pushes an image of which no runtime has a layer, and returns its reference and digest.
func (n *Node) Push(repository string) (ref, digest string) {
	n.T.Helper()
	data := make([]byte, 1<<20)
	for i := range data {
		data[i] = byte(rand.Uint32())
	}
	img, err := testbed.BusyboxWith("var/unique", data)
	if err != nil {
		n.T.Fatal(err)
	}
	ref = "docker.io/" + repository + ":1"
	if err := Registry.Push(ref, img); err != nil {
		n.T.Fatal(err)
	}
	return ref, img.Descriptor().Digest
}

// ImagePod returns the manifest of a pod that runs an image, with additional fields of its
// spec.
func ImagePod(name, image, spec string) string {
	return strings.Replace(IdlePod(name, spec), testbed.BusyboxImage, image, 1)
}

// AwaitPullError waits until the container waits for the reason with a message that contains
// all words.
func (n *Node) AwaitPullError(name, reason string, words ...string) {
	n.T.Helper()
	n.AwaitStatus(name, fmt.Sprint(reason, " ", words), func(p v1.Pod) error {
		c := p.Status.ContainerStatuses
		if len(c) != 1 || c[0].State.Waiting == nil || c[0].State.Waiting.Reason != reason {
			return fmt.Errorf("%+v", c)
		}
		for _, word := range words {
			if !strings.Contains(c[0].State.Waiting.Message, word) {
				return fmt.Errorf("%q is not in %s", word, c[0].State.Waiting.Message)
			}
		}
		return nil
	})
}

// MustNotLog fails the test if a secret is in the daemon's log or in its API.
func (n *Node) MustNotLog(secret string) {
	n.T.Helper()
	for _, path := range []string{"/pods", "/podstead/v1/events", "/podstead/v1/manifests"} {
		body, err := n.Get(n.T.Context(), path)
		if err != nil {
			n.T.Fatal(err)
		}
		if strings.Contains(string(body), secret) {
			n.T.Errorf("%s contains the secret", path)
		}
	}
	if log, err := os.ReadFile(n.Log()); err != nil || strings.Contains(string(log), secret) {
		n.T.Errorf("the log contains the secret, or cannot be read: %v", err)
	}
}

// DockerConfig returns the config file that docker login writes.
func DockerConfig(host, user, password string) string {
	return fmt.Sprintf(`{"auths": {%q: {"auth": %q}}}`, host, base64.StdEncoding.EncodeToString([]byte(user+":"+password)))
}

// PullSecret returns the manifest of a Secret with a DockerConfig.
func PullSecret(name, config string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Secret\ntype: kubernetes.io/dockerconfigjson\nmetadata: {name: "+
		"%s}\nstringData: {.dockerconfigjson: '%s'}\n", name, config)
}

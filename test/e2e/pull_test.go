package e2e

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/test/testbed"
)

// push pushes an image of which no runtime has a layer, and returns its reference and digest.
func (n *node) push(repository string) (ref, digest string) {
	n.t.Helper()
	data := make([]byte, 1<<20)
	for i := range data {
		data[i] = byte(rand.Uint32())
	}
	img, err := testbed.BusyboxWith("var/unique", data)
	if err != nil {
		n.t.Fatal(err)
	}
	ref = "docker.io/" + repository + ":1"
	if err := registry.Push(ref, img); err != nil {
		n.t.Fatal(err)
	}
	return ref, img.Descriptor().Digest
}

// imagePod returns the manifest of a pod that runs an image, with additional fields of its
// spec.
func imagePod(name, image, spec string) string {
	return strings.Replace(idlePod(name, spec), testbed.BusyboxImage, image, 1)
}

// awaitPullError waits until the container waits for the reason with a message that contains
// all words.
func (n *node) awaitPullError(name, reason string, words ...string) {
	n.t.Helper()
	n.awaitStatus(name, fmt.Sprint(reason, " ", words), func(p v1.Pod) error {
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

// mustNotLog fails the test if a secret is in the daemon's log or in its API.
func (n *node) mustNotLog(secret string) {
	n.t.Helper()
	for _, path := range []string{"/pods", "/podstead/v1/events", "/podstead/v1/manifests"} {
		body, err := n.Get(n.t.Context(), path)
		if err != nil {
			n.t.Fatal(err)
		}
		if strings.Contains(string(body), secret) {
			n.t.Errorf("%s contains the secret", path)
		}
	}
	if log, err := os.ReadFile(n.Log()); err != nil || strings.Contains(string(log), secret) {
		n.t.Errorf("the log contains the secret, or cannot be read: %v", err)
	}
}

// dockerConfig returns the config file that docker login writes.
func dockerConfig(host, user, password string) string {
	return fmt.Sprintf(`{"auths": {%q: {"auth": %q}}}`, host, base64.StdEncoding.EncodeToString([]byte(user+":"+password)))
}

// pullSecret returns the manifest of a Secret with a dockerConfig.
func pullSecret(name, config string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Secret\ntype: kubernetes.io/dockerconfigjson\nmetadata: {name: %s}\nstringData: {.dockerconfigjson: '%s'}\n", name, config)
}

// A private image is pulled with a Secret from the manifests as soon as the correct one
// exists.
func TestPullSecrets(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		repository, password := "private-"+n.Name+"/app", "pass-word-"+n.Name
		ref, _ := n.push(repository)
		registry.Protect(repository, "bob", password)
		n.writeManifest("p.yaml", imagePod("p", ref, "imagePullSecrets: [{name: wrong}, {name: right}]"))
		n.writeManifest("wrong.yaml", pullSecret("wrong", dockerConfig("docker.io/private-"+n.Name, "bob", "no-"+password)))
		n.start()
		n.awaitPullError("p", "ImagePullBackOff", "ErrImagePull: ", "with the credential of Secret default/wrong: ", "401 Unauthorized", "Secret default/right is in no manifest")
		if found, err := n.events("p"); err != nil || !strings.Contains(found["FailedToRetrieveImagePullSecret"].Message, "right") {
			t.Errorf("events %v (%v)", keys(found), err)
		}
		n.writeManifest("right.yaml", pullSecret("right", dockerConfig("https://index.docker.io/v1/", "bob", password)))
		main := n.awaitRunning("p")
		n.mustPrintIn(main, "1048576", "stat", "-c", "%s", "/var/unique")
		if n.rt.Kind != testbed.Containerd16 { // it does not support image volumes
			mounted, _ := n.push(repository + "-data")
			registry.Protect(repository+"-data", "bob", password)
			n.writeManifest("volume.yaml", strings.Replace(volumePod("volume", "[{name: data, image: {reference: "+mounted+"}}]", "[{name: data, mountPath: /data}]",
				"  imagePullSecrets: [{name: right}]"), "namespace: apps, ", "", 1))
			n.mustContain(n.awaitRunning("volume"), map[string]string{"stat -c %s /data/var/unique": "1048576"})
		}
		n.mustNotLog(password)
		n.mustNotLog(base64.StdEncoding.EncodeToString([]byte("bob:" + password)))

		// A pull without credentials reports the registry's response.
		other, _ := n.push(repository + "-other")
		registry.Protect(repository+"-other", "bob", password)
		n.writeManifest("none.yaml", imagePod("none", other, ""))
		n.awaitPullError("none", "ImagePullBackOff", "uthoriz")
		n.mustStillRun("p", main)
	})
}

// The node's credentials: docker's config file in the root directory, which is read for each
// pull, and the kubelet's credential provider plugins.
func TestNodeCredentials(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		password := "pass-word-" + n.Name
		byFile, _ := n.push("file-" + n.Name + "/app")
		byPlugin, _ := n.push("plugin-" + n.Name + "/app")
		registry.Protect("file-"+n.Name+"/app", "bob", password)
		registry.Protect("plugin-"+n.Name+"/app", "eve", password)
		plugins := filepath.Join(n.Dir(), "plugins")
		requestFile := filepath.Join(n.Dir(), "request")
		writeAll(t, plugins, map[string]string{
			"cloud": fmt.Sprintf(`#!/bin/sh
cat >> %s
echo '{"apiVersion": "credentialprovider.kubelet.k8s.io/v1", "kind": "CredentialProviderResponse", "cacheKeyType": "Registry", "auth": {"docker.io": {"username": "eve", "password": "'$WORD'"}}}'
`, requestFile),
			"config.yaml": fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
  - name: cloud
    matchImages: [docker.io/plugin-%s]
    defaultCacheDuration: 1h
    apiVersion: credentialprovider.kubelet.k8s.io/v1
    env: [{name: WORD, value: %s}]
`, n.Name, password),
		})
		if err := os.Chmod(filepath.Join(plugins, "cloud"), 0o755); err != nil {
			t.Fatal(err)
		}
		n.Args = []string{"--image-credential-provider-config", filepath.Join(plugins, "config.yaml"), "--image-credential-provider-bin-dir", plugins}
		n.writeManifest("file.yaml", imagePod("file", byFile, ""))
		n.writeManifest("plugin.yaml", imagePod("plugin", byPlugin, ""))
		n.start()
		n.awaitRunning("plugin")
		question, err := os.ReadFile(requestFile)
		if want := `{"apiVersion":"credentialprovider.kubelet.k8s.io/v1","image":"` + byPlugin + `","kind":"CredentialProviderRequest"}`; err != nil || string(question) != want {
			t.Errorf("the plugin got the request %s (%v), want %s", question, err, want)
		}
		n.awaitPullError("file", "ImagePullBackOff", "uthoriz")
		writeAll(t, n.Root, map[string]string{"config.json": dockerConfig("docker.io", "bob", password)})
		n.awaitRunning("file")
		n.mustNotLog(password)
	})
}

// An image may be named by its digest, with or without a tag.
func TestImageByDigest(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		ref, digest := n.push("digest-" + n.Name + "/app")
		name := strings.TrimSuffix(ref, ":1")
		n.writeManifest("digest.yaml", imagePod("digest", name+"@"+digest, ""))
		n.writeManifest("both.yaml", imagePod("both", ref+"@"+digest, ""))
		n.writeManifest("never.yaml", strings.Replace(imagePod("never", name+":2", ""), "name: main", "name: main\n      imagePullPolicy: Never", 1))
		n.writeManifest("wrong.yaml", imagePod("wrong", name+"@sha256:"+strings.Repeat("0", 64), ""))
		n.start()
		for _, pod := range []string{"digest", "both"} {
			n.mustPrintIn(n.awaitRunning(pod), "1048576", "stat", "-c", "%s", "/var/unique")
			if p := n.awaitReady(pod); !strings.Contains(p.Status.ContainerStatuses[0].ImageID, "sha256:") {
				t.Errorf("image ID of %s is %s", pod, p.Status.ContainerStatuses[0].ImageID)
			}
		}
		n.awaitPullError("never", "ErrImageNeverPull", name+":2")
		n.awaitPullError("wrong", "ImagePullBackOff", "not found")
	})
}

// An interrupted pull is reported with the registry's response, backed off and retried, and
// does not delay other pods.
func TestInterruptedPull(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		repository := "broken-" + n.Name + "/app"
		ref, _ := n.push(repository)
		repair := registry.TruncateLayers(repository)
		n.writeManifest("p.yaml", imagePod("p", ref, ""))
		n.start()
		n.writeManifest("fine.yaml", idlePod("fine", ""))
		n.awaitRunning("fine")
		n.awaitPullError("p", "ImagePullBackOff", "EOF")
		repair()
		n.mustPrintIn(n.awaitRunning("p"), "1048576", "stat", "-c", "%s", "/var/unique")
	})
}

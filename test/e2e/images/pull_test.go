package images

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// A private image is pulled with a Secret from the manifests as soon as the correct one
// exists.
func TestPullSecrets(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		repository, password := "private-"+n.Name+"/app", "pass-word-"+n.Name
		ref, _ := n.Push(repository)
		harness.Registry.Protect(repository, "bob", password)
		n.WriteManifest("p.yaml", harness.ImagePod("p", ref, "imagePullSecrets: [{name: wrong}, {name: right}]"))
		n.WriteManifest("wrong.yaml", harness.PullSecret("wrong",
			harness.DockerConfig("docker.io/private-"+n.Name, "bob", "no-"+password)))
		n.MustStart()
		n.AwaitPullError("p", "ImagePullBackOff", "ErrImagePull: ", "with the credential of Secret default/wrong: ",
			"401 Unauthorized", "Secret default/right is in no manifest")
		if found, err := n.Events("p"); err != nil ||
			!strings.Contains(found["FailedToRetrieveImagePullSecret"].Message, "right") {
			t.Errorf("events %v (%v)", harness.Keys(found), err)
		}
		n.WriteManifest("right.yaml", harness.PullSecret("right",
			harness.DockerConfig("https://index.docker.io/v1/", "bob", password)))
		main := n.AwaitRunning("p")
		n.MustPrintIn(main, "1048576", "stat", "-c", "%s", "/var/unique")
		if n.Runtime.Kind != testbed.Containerd16 { // it does not support image volumes
			mounted, _ := n.Push(repository + "-data")
			harness.Registry.Protect(repository+"-data", "bob", password)
			n.WriteManifest("volume.yaml",
				strings.Replace(harness.VolumePod("volume", "[{name: data, image: {reference: "+mounted+"}}]",
					"[{name: data, mountPath: /data}]",
					"  imagePullSecrets: [{name: right}]"), "namespace: apps, ", "", 1))
			n.MustContain(n.AwaitRunning("volume"), map[string]string{"stat -c %s /data/var/unique": "1048576"})
		}
		n.MustNotLog(password)
		n.MustNotLog(base64.StdEncoding.EncodeToString([]byte("bob:" + password)))

		// A pull without credentials reports the registry's response.
		other, _ := n.Push(repository + "-other")
		harness.Registry.Protect(repository+"-other", "bob", password)
		n.WriteManifest("none.yaml", harness.ImagePod("none", other, ""))
		n.AwaitPullError("none", "ImagePullBackOff", "uthoriz")
		n.MustStillRun("p", main)
	})
}

// The node's credentials: docker's config file in the root directory, which is read for each
// pull, and the kubelet's credential provider plugins.
func TestNodeCredentials(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		password := "pass-word-" + n.Name
		byFile, _ := n.Push("file-" + n.Name + "/app")
		byPlugin, _ := n.Push("plugin-" + n.Name + "/app")
		harness.Registry.Protect("file-"+n.Name+"/app", "bob", password)
		harness.Registry.Protect("plugin-"+n.Name+"/app", "eve", password)
		plugins := filepath.Join(n.Dir(), "plugins")
		requestFile := filepath.Join(n.Dir(), "request")
		harness.WriteAll(t, plugins, map[string]string{
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
		n.Args = []string{"--image-credential-provider-config", filepath.Join(plugins, "config.yaml"),
			"--image-credential-provider-bin-dir", plugins}
		n.WriteManifest("file.yaml", harness.ImagePod("file", byFile, ""))
		n.WriteManifest("plugin.yaml", harness.ImagePod("plugin", byPlugin, ""))
		n.MustStart()
		n.AwaitRunning("plugin")
		question, err := os.ReadFile(requestFile)
		if want := `{"apiVersion":"credentialprovider.kubelet.k8s.io/v1","image":"` + byPlugin +
			`","kind":"CredentialProviderRequest"}`; err != nil || string(question) != want {
			t.Errorf("the plugin got the request %s (%v), want %s", question, err, want)
		}
		n.AwaitPullError("file", "ImagePullBackOff", "uthoriz")
		harness.WriteAll(t, n.Root, map[string]string{"config.json": harness.DockerConfig("docker.io", "bob", password)})
		n.AwaitRunning("file")
		n.MustNotLog(password)
	})
}

// An image may be named by its digest, with or without a tag.
func TestImageByDigest(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		ref, digest := n.Push("digest-" + n.Name + "/app")
		name := strings.TrimSuffix(ref, ":1")
		n.WriteManifest("digest.yaml", harness.ImagePod("digest", name+"@"+digest, ""))
		n.WriteManifest("both.yaml", harness.ImagePod("both", ref+"@"+digest, ""))
		n.WriteManifest("never.yaml", strings.Replace(harness.ImagePod("never", name+":2", ""), "name: main",
			"name: main\n      imagePullPolicy: Never", 1))
		n.WriteManifest("wrong.yaml", harness.ImagePod("wrong", name+"@sha256:"+strings.Repeat("0", 64), ""))
		n.MustStart()
		for _, pod := range []string{"digest", "both"} {
			n.MustPrintIn(n.AwaitRunning(pod), "1048576", "stat", "-c", "%s", "/var/unique")
			if p := n.AwaitReady(pod); !strings.Contains(p.Status.ContainerStatuses[0].ImageID, "sha256:") {
				t.Errorf("image ID of %s is %s", pod, p.Status.ContainerStatuses[0].ImageID)
			}
		}
		n.AwaitPullError("never", "ErrImageNeverPull", name+":2")
		n.AwaitPullError("wrong", "ImagePullBackOff", "not found")
	})
}

// An interrupted pull is reported with the registry's response, backed off and retried, and
// does not delay other pods.
func TestInterruptedPull(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		repository := "broken-" + n.Name + "/app"
		ref, _ := n.Push(repository)
		repair := harness.Registry.TruncateLayers(repository)
		n.WriteManifest("p.yaml", harness.ImagePod("p", ref, ""))
		n.MustStart()
		n.WriteManifest("fine.yaml", harness.IdlePod("fine", ""))
		n.AwaitRunning("fine")
		n.AwaitPullError("p", "ImagePullBackOff", "EOF")
		repair()
		n.MustPrintIn(n.AwaitRunning("p"), "1048576", "stat", "-c", "%s", "/var/unique")
	})
}

// During the pull of its first image a pod shows its address, within a second as at the kubelet.
func TestAddressDuringAPull(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.MustStart()
		for name, rest := range map[string]string{"plain": "", "host": "hostNetwork: true"} {
			repository := "address-" + n.Name + "-" + name + "/app"
			ref, _ := n.Push(repository)
			release := harness.Registry.Hold(repository)
			defer release()
			n.WriteManifest(name+".yaml", harness.ImagePod(name, ref, rest))
			n.Await("image "+ref+" is pulled", func() error {
				if harness.Registry.Waiting(repository) == 0 {
					return errors.New("no request")
				}
				return nil
			})
			began := time.Now()
			p := n.AwaitStatus(name, "shows its address and its sandbox", func(p v1.Pod) error {
				for _, c := range p.Status.Conditions {
					// That of a pod on the host's network is the node's, which may have none.
					has := p.Status.PodIP != "" || p.Spec.HostNetwork
					if c.Type == v1.PodReadyToStartContainers && c.Status == v1.ConditionTrue && has {
						return nil
					}
				}
				return fmt.Errorf("address %q, conditions %v", p.Status.PodIP, p.Status.Conditions)
			})
			if took := time.Since(began); took > time.Second {
				t.Errorf("pod %s shows its address %s after the pull began", name, took)
			}
			if w := p.Status.ContainerStatuses[0].State.Waiting; w == nil || harness.Registry.Waiting(repository) == 0 {
				t.Errorf("the pull does not go on: %+v", p.Status.ContainerStatuses)
			}
			release()
			n.AwaitRunning(name)
			if after := n.AwaitReady(name); after.Status.PodIP != p.Status.PodIP {
				t.Errorf("the address of pod %s was %s and is %s", name, p.Status.PodIP, after.Status.PodIP)
			}
		}
	})
}

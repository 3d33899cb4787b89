package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstead/podstead/test/testbed"
)

// pushUniqueImage pushes an image that no other test has and returns its reference.
func (n *node) pushUniqueImage(name string) string {
	n.t.Helper()
	ref := fmt.Sprintf("docker.io/library/%s-%s:1", name, n.Name)
	img, err := testbed.Busybox()
	if err != nil {
		n.t.Fatal(err)
	}
	img.Config.Labels = map[string]string{"name": ref}
	if err := registry.Push(ref, img); err != nil {
		n.t.Fatal(err)
	}
	return ref
}

// has reports whether the runtime has an image.
func (n *node) has(ref string) bool {
	n.t.Helper()
	r, err := n.rt.CRI.Images.ImageStatus(n.t.Context(), &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: ref}})
	if err != nil {
		n.t.Fatal(err)
	}
	return r.Image != nil
}

// images returns the states of the runtime's images by name.
func (n *node) images() (states map[string]string, err error) {
	n.t.Helper()
	body, err := n.Get(n.t.Context(), "/podstead/v1/images")
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

// An image can be pulled before a pod needs it, with the node's credentials or with a Secret
// from the manifests, and Ctrl-C cancels the pull.
func TestImagesArePulledOnDemand(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		byFile, _ := n.push("by-file-" + n.Name + "/app")
		bySecret, _ := n.push("by-secret-" + n.Name + "/app")
		slow, _ := n.push("slow-" + n.Name + "/app")
		password := "pass-word-" + n.Name
		registry.Protect("by-file-"+n.Name+"/app", "bob", password)
		registry.Protect("by-secret-"+n.Name+"/app", "eve", password)
		writeAll(t, n.Root, map[string]string{"config.json": dockerConfig("docker.io/by-file-"+n.Name, "bob", password)})
		n.writeManifest("login.yaml", pullSecret("login", dockerConfig("docker.io", "eve", password)))
		n.writeManifest("p.yaml", strings.Replace(imagePod("p", byFile, ""), "name: main", "name: main\n      imagePullPolicy: Never", 1))
		n.start()
		n.awaitPullError("p", "ErrImageNeverPull", byFile)
		out, errs, status := n.podstead("images", "pull", byFile, "--api-socket", n.Socket())
		if status != 0 || !strings.HasPrefix(out, "pulled "+byFile+" (") || errs != "pulling "+byFile+"\n" {
			t.Errorf("images pull exited with %d: %s%s", status, out, errs)
		}
		n.awaitRunning("p")
		if out, errs, status = n.podstead("images", "pull", bySecret, "--api-socket", n.Socket()); status != 1 || !strings.Contains(errs, "failed to pull image") {
			t.Errorf("images pull without a login exited with %d: %s%s", status, out, errs)
		}
		if out, errs, status = n.podstead("images", "pull", bySecret, "--secret", "default/login", "--api-socket", n.Socket()); status != 0 {
			t.Errorf("images pull with a login exited with %d: %s%s", status, out, errs)
		}
		states, err := n.images()
		if err != nil || states[byFile] != "used" || states[bySecret] != "unused" {
			t.Errorf("images are %v %v", states, err)
		}
		if out, errs, status = n.podstead("images", "pull", "no/Such", "--api-socket", n.Socket()); status != 1 || !strings.Contains(errs, "not a valid reference") {
			t.Errorf("images pull of no name exited with %d: %s%s", status, out, errs)
		}

		repository := "slow-" + n.Name + "/app"
		release := registry.Hold(repository)
		defer release()
		pull := n.Command("images", "pull", slow, "--api-socket", n.Socket())
		var said bytes.Buffer
		pull.Stderr = &said
		if err := pull.Start(); err != nil {
			t.Fatal(err)
		}
		waits := func(want bool) func() error {
			return func() error {
				if got := registry.Waiting(repository); got > 0 != want {
					return fmt.Errorf("%d requests wait", got)
				}
				return nil
			}
		}
		n.await("it is pulled", waits(true))
		if err := pull.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		if _ = pull.Wait(); pull.ProcessState.ExitCode() != 130 || !strings.Contains(said.String(), "canceled") {
			t.Errorf("Ctrl-C ends it with %d: %s", pull.ProcessState.ExitCode(), said.String())
		}
		n.await("the pull ends", waits(false))
		n.mustNotLog(password)
	})
}

// Unused images that podstead pulled are removed: on request, and automatically when the disk
// is too full. Images that a container uses, or that others pulled, stay. A kill of the daemon
// changes none of this.
func TestUnusedImagesAreRemoved(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		a, b, c, theirs := n.pushUniqueImage("a"), n.pushUniqueImage("b"), n.pushUniqueImage("c"), n.pushUniqueImage("theirs")
		if err := n.rt.CRI.Pull(t.Context(), theirs); err != nil {
			t.Fatal(err)
		}
		n.Args = []string{"--minimum-image-ttl-duration", "0s"}
		for name, ref := range map[string]string{"a": a, "b": b, "c": c} {
			n.writeManifest(name+".yaml", strings.Replace(sleepPod(name, "one"), testbed.BusyboxImage, ref, 1))
		}
		n.start()
		for _, name := range []string{"a", "b", "c"} {
			n.awaitRunning(name)
		}
		// Another client has a container with image c.
		bare := &testbed.BarePod{Name: "theirs-" + n.Name, Namespace: "default", UID: "theirs-" + n.Name, LogDir: t.TempDir(), Command: []string{"true"}}
		if err := n.rt.CRI.Start(t.Context(), bare); err != nil {
			t.Fatal(err)
		}
		_, err := n.rt.CRI.Runtime.CreateContainer(t.Context(), &runtimeapi.CreateContainerRequest{
			PodSandboxId: bare.Sandbox,
			Config: &runtimeapi.ContainerConfig{
				Metadata: &runtimeapi.ContainerMetadata{Name: "second"}, Image: &runtimeapi.ImageSpec{Image: c}, Command: []string{"true"}, Linux: &runtimeapi.LinuxContainerConfig{},
			},
			SandboxConfig: &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: bare.Name, Namespace: "default", Uid: bare.UID}, LogDirectory: bare.LogDir, Linux: &runtimeapi.LinuxPodSandboxConfig{}},
		})
		if err != nil {
			t.Fatal(err)
		}
		n.removeManifest("a.yaml")
		n.removeManifest("c.yaml")
		n.restart()
		n.await("the states of images", func() error {
			states, err := n.images()
			if err != nil {
				return err
			}
			for ref, want := range map[string]string{a: "unused", b: "used", c: "used", theirs: "foreign"} {
				if states[ref] != want {
					return fmt.Errorf("%s is %q, want %q", ref, states[ref], want)
				}
			}
			return nil
		})
		out, errs, status := n.podstead("images", "ls", "--api-socket", n.Socket())
		if status != 0 || !strings.Contains(out, a+" ") || !strings.Contains(out, "foreign") {
			t.Errorf("images ls exited with %d:\n%s%s", status, out, errs)
		}
		out, errs, status = n.podstead("images", "prune", "--dry-run", "--api-socket", n.Socket())
		if status != 0 || !strings.HasPrefix(out, "would remove "+a+" (") || strings.Count(out, "\n") != 1 || !n.has(a) {
			t.Errorf("images prune --dry-run exited with %d:\n%s%s", status, out, errs)
		}
		out, errs, status = n.podstead("images", "prune", "--api-socket", n.Socket())
		if status != 0 || !strings.HasPrefix(out, "removed "+a+" (") || strings.Count(out, "\n") != 1 || n.has(a) {
			t.Errorf("images prune exited with %d:\n%s%s", status, out, errs)
		}

		// The other client removes its container, and the disk counts as full.
		if err := n.rt.CRI.RemovePod(t.Context(), bare.Sandbox); err != nil {
			t.Fatal(err)
		}
		n.Kill()
		n.Args = append(n.Args, "--image-gc-high-threshold", "1", "--image-gc-low-threshold", "0", "--image-gc-period", "1s")
		n.start()
		n.await("c is removed automatically", func() error {
			if n.has(c) {
				return fmt.Errorf("%s still exists", c)
			}
			return nil
		})
		n.await("an event reports that this was not enough", func() error {
			found, err := n.events("")
			if e := found["FreeDiskSpaceFailed"]; err != nil || e.InvolvedObject.Kind != "Node" {
				return fmt.Errorf("%+v %v", found, err)
			}
			return nil
		})
		for _, ref := range []string{b, theirs, testbed.BusyboxImage, testbed.PauseImage} {
			if !n.has(ref) {
				t.Errorf("%s was removed", ref)
			}
		}
		n.awaitReady("b")
	})
}

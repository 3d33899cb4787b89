package images

import (
	"bytes"
	"fmt"
	"strings"
	"syscall"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// pushUniqueImage pushes an image that no other test has and returns its reference.
func pushUniqueImage(n *harness.Node, name string) string {
	n.T.Helper()
	ref := fmt.Sprintf("docker.io/library/%s-%s:1", name, n.Name)
	img, err := testbed.Busybox()
	if err != nil {
		n.T.Fatal(err)
	}
	img.Config.Labels = map[string]string{"name": ref}
	if err := harness.Registry.Push(ref, img); err != nil {
		n.T.Fatal(err)
	}
	return ref
}

// An image can be pulled before a pod needs it, with the node's credentials or with a Secret
// from the manifests, and Ctrl-C cancels the pull.
func TestImagesArePulledOnDemand(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		byFile, _ := n.Push("by-file-" + n.Name + "/app")
		bySecret, _ := n.Push("by-secret-" + n.Name + "/app")
		slow, _ := n.Push("slow-" + n.Name + "/app")
		password := "pass-word-" + n.Name
		harness.Registry.Protect("by-file-"+n.Name+"/app", "bob", password)
		harness.Registry.Protect("by-secret-"+n.Name+"/app", "eve", password)
		harness.WriteAll(t, n.Root,
			map[string]string{"config.json": harness.DockerConfig("docker.io/by-file-"+n.Name, "bob", password)})
		n.WriteManifest("login.yaml", harness.PullSecret("login", harness.DockerConfig("docker.io", "eve", password)))
		n.WriteManifest("p.yaml", strings.Replace(harness.ImagePod("p", byFile, ""), "name: main",
			"name: main\n      imagePullPolicy: Never", 1))
		n.MustStart()
		n.AwaitPullError("p", "ErrImageNeverPull", byFile)
		out, errs, status := n.Podstead("images", "pull", byFile, "--api-socket", n.Socket())
		if status != 0 || !strings.HasPrefix(out, "pulled "+byFile+" (") || errs != "pulling "+byFile+"\n" {
			t.Errorf("images pull exited with %d: %s%s", status, out, errs)
		}
		n.AwaitRunning("p")
		if out, errs, status = n.Podstead("images", "pull", bySecret, "--api-socket", n.Socket()); status != 1 ||
			!strings.Contains(errs, "failed to pull image") {
			t.Errorf("images pull without a login exited with %d: %s%s", status, out, errs)
		}
		if out, errs, status = n.Podstead("images", "pull", bySecret, "--secret", "default/login", "--api-socket",
			n.Socket()); status != 0 {
			t.Errorf("images pull with a login exited with %d: %s%s", status, out, errs)
		}
		states, err := n.Images()
		if err != nil || states[byFile] != "used" || states[bySecret] != "unused" {
			t.Errorf("images are %v %v", states, err)
		}
		if out, errs, status = n.Podstead("images", "pull", "no/Such", "--api-socket", n.Socket()); status != 1 ||
			!strings.Contains(errs, "not a valid reference") {
			t.Errorf("images pull of no name exited with %d: %s%s", status, out, errs)
		}

		repository := "slow-" + n.Name + "/app"
		release := harness.Registry.Hold(repository)
		defer release()
		pull := n.Command("images", "pull", slow, "--api-socket", n.Socket())
		var said bytes.Buffer
		pull.Stderr = &said
		if err := pull.Start(); err != nil {
			t.Fatal(err)
		}
		waits := func(want bool) func() error {
			return func() error {
				if got := harness.Registry.Waiting(repository); got > 0 != want {
					return fmt.Errorf("%d requests wait", got)
				}
				return nil
			}
		}
		n.Await("it is pulled", waits(true))
		if err := pull.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		if _ = pull.Wait(); pull.ProcessState.ExitCode() != 130 || !strings.Contains(said.String(), "canceled") {
			t.Errorf("Ctrl-C ends it with %d: %s", pull.ProcessState.ExitCode(), said.String())
		}
		n.Await("the pull ends", waits(false))
		n.MustNotLog(password)
	})
}

// Unused images that podstead pulled are removed: on request, and automatically when the disk
// is too full. Images that a container uses, or that others pulled, stay. A kill of the daemon
// changes none of this.
func TestUnusedImagesAreRemoved(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		a, b, c, theirs := pushUniqueImage(n, "a"), pushUniqueImage(n, "b"), pushUniqueImage(n, "c"),
			pushUniqueImage(n, "theirs")
		if err := n.Runtime.CRI.Pull(t.Context(), theirs); err != nil {
			t.Fatal(err)
		}
		n.Args = []string{"--minimum-image-ttl-duration", "0s"}
		for name, ref := range map[string]string{"a": a, "b": b, "c": c} {
			n.WriteManifest(name+".yaml", strings.Replace(harness.SleepPod(name, "one"), testbed.BusyboxImage, ref, 1))
		}
		n.MustStart()
		for _, name := range []string{"a", "b", "c"} {
			n.AwaitRunning(name)
		}
		// Another client has a container with image c.
		bare := &testbed.BarePod{Name: "theirs-" + n.Name, Namespace: "default", UID: "theirs-" + n.Name, LogDir: t.TempDir(),
			Command: []string{"true"}}
		if err := n.Runtime.CRI.Start(t.Context(), bare); err != nil {
			t.Fatal(err)
		}
		_, err := n.Runtime.CRI.Runtime.CreateContainer(t.Context(), &runtimeapi.CreateContainerRequest{
			PodSandboxId: bare.Sandbox,
			Config: &runtimeapi.ContainerConfig{
				Metadata: &runtimeapi.ContainerMetadata{Name: "second"}, Image: &runtimeapi.ImageSpec{Image: c},
				Command: []string{"true"}, Linux: &runtimeapi.LinuxContainerConfig{},
			},
			SandboxConfig: &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: bare.Name,
				Namespace: "default", Uid: bare.UID}, LogDirectory: bare.LogDir, Linux: &runtimeapi.LinuxPodSandboxConfig{}},
		})
		if err != nil {
			t.Fatal(err)
		}
		n.RemoveManifest("a.yaml")
		n.RemoveManifest("c.yaml")
		n.Restart()
		n.Await("the states of images", func() error {
			states, err := n.Images()
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
		out, errs, status := n.Podstead("images", "ls", "--api-socket", n.Socket())
		if status != 0 || !strings.Contains(out, a+" ") || !strings.Contains(out, "foreign") {
			t.Errorf("images ls exited with %d:\n%s%s", status, out, errs)
		}
		out, errs, status = n.Podstead("images", "prune", "--dry-run", "--api-socket", n.Socket())
		if status != 0 || !strings.HasPrefix(out, "would remove "+a+" (") || strings.Count(out, "\n") != 1 || !n.HasImage(a) {
			t.Errorf("images prune --dry-run exited with %d:\n%s%s", status, out, errs)
		}
		out, errs, status = n.Podstead("images", "prune", "--api-socket", n.Socket())
		if status != 0 || !strings.HasPrefix(out, "removed "+a+" (") || strings.Count(out, "\n") != 1 || n.HasImage(a) {
			t.Errorf("images prune exited with %d:\n%s%s", status, out, errs)
		}

		// The other client removes its container, and the disk counts as full.
		if err := n.Runtime.CRI.RemovePod(t.Context(), bare.Sandbox); err != nil {
			t.Fatal(err)
		}
		n.Kill()
		n.Args = append(n.Args, "--image-gc-high-threshold", "1", "--image-gc-low-threshold", "0", "--image-gc-period", "1s")
		n.MustStart()
		n.Await("c is removed automatically", func() error {
			if n.HasImage(c) {
				return fmt.Errorf("%s still exists", c)
			}
			return nil
		})
		n.Await("an event reports that this was not enough", func() error {
			found, err := n.Events("")
			if e := found["FreeDiskSpaceFailed"]; err != nil || e.InvolvedObject.Kind != "Node" {
				return fmt.Errorf("%+v %v", found, err)
			}
			return nil
		})
		for _, ref := range []string{b, theirs, testbed.BusyboxImage, testbed.PauseImage} {
			if !n.HasImage(ref) {
				t.Errorf("%s was removed", ref)
			}
		}
		n.AwaitReady("b")
	})
}

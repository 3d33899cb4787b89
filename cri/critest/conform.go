package critest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstead/podstead/cri"
)

// Target is a runtime that is compared with the fake.
type Target struct {
	Client *cri.Client
	// Image is present and has sh and sleep.
	Image string
	// LogDir is a directory for logs.
	LogDir string
	// Fake is set if the target is the fake, which runs no commands and is
	// given their results.
	Fake *Fake
}

// Conform runs a pod through everything that the product relies on, and so holds
// a real runtime and the fake to the same behaviour. It leaves nothing behind.
func Conform(t *testing.T, target Target) {
	c := &conformance{T: t, Target: target, ctx: t.Context()}
	defer func() {
		// Whatever failed, nothing may stay on a real runtime.
		if s, err := c.Client.PodStatus(context.WithoutCancel(c.ctx), conformUID); err == nil {
			for _, b := range s.Sandboxes {
				_ = c.Client.RemovePodSandbox(context.WithoutCancel(c.ctx), b.ID)
			}
		}
	}()
	c.sandboxes()
	c.containers()
	c.endings()
	c.removal()
}

const conformUID types.UID = "conform-1"

type conformance struct {
	*testing.T
	Target
	ctx     context.Context
	sandbox string
	config  *runtimeapi.PodSandboxConfig
}

func (c *conformance) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

func (c *conformance) status() *cri.PodStatus {
	c.Helper()
	s, err := c.Client.PodStatus(c.ctx, conformUID)
	c.must(err)
	return s
}

// pod returns the config of a sandbox on the host's network, which needs no CNI.
func (c *conformance) pod(attempt uint32) *runtimeapi.PodSandboxConfig {
	return &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: "conform", Namespace: "default", Uid: string(conformUID),
			Attempt: attempt},
		LogDirectory: c.LogDir,
		Labels: map[string]string{
			cri.LabelPodUID: string(conformUID), cri.LabelPodName: "conform", cri.LabelPodNamespace: "default",
			cri.LabelInstance: c.Client.Instance(),
		},
		Annotations: map[string]string{"kubernetes.io/config.source": "file"},
		Linux: &runtimeapi.LinuxPodSandboxConfig{SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
			NamespaceOptions: namespaces(),
		}},
	}
}

// namespaces give each container its own process 1, which ignores a SIGTERM that
// it does not handle.
func namespaces() *runtimeapi.NamespaceOption {
	return &runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_NODE, Pid: runtimeapi.NamespaceMode_CONTAINER}
}

// create creates a container. The fake is set to behave as its command would.
func (c *conformance) create(name string, b Behaviour, command ...string) (string, error) {
	if c.Fake != nil {
		c.Fake.Behave(name, b)
	}
	labels := map[string]string{cri.LabelContainerName: name}
	for k, v := range c.config.Labels {
		labels[k] = v
	}
	return c.Client.CreateContainer(c.ctx, c.sandbox, &runtimeapi.ContainerConfig{
		Metadata:    &runtimeapi.ContainerMetadata{Name: name},
		Image:       &runtimeapi.ImageSpec{Image: c.Image},
		Command:     command,
		Labels:      labels,
		Annotations: map[string]string{cri.AnnotationRestartCount: "0", cri.AnnotationContainerHash: "ab12"},
		LogPath:     name + ".log",
		Linux: &runtimeapi.LinuxContainerConfig{SecurityContext: &runtimeapi.LinuxContainerSecurityContext{
			NamespaceOptions: namespaces(),
		}},
	}, c.config)
}

// run creates and starts a container.
func (c *conformance) run(name string, b Behaviour, command ...string) string {
	c.Helper()
	id, err := c.create(name, b, command...)
	c.must(err)
	c.must(c.Client.StartContainer(c.ctx, id))
	return id
}

// exited waits until the newest instance has exited.
func (c *conformance) exited(name string) *cri.Container {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.ctx, 20*time.Second)
	defer cancel()
	for {
		if k := c.status().Newest(name); k != nil && k.State == cri.StateExited {
			return k
		}
		// Not every runtime has events; this is how a relist sees it too.
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			c.Fatalf("%s did not end: %+v", name, c.status().Containers)
		}
	}
}

func (c *conformance) sandboxes() {
	if _, err := c.Client.Version(c.ctx); err != nil {
		c.Fatal(err)
	}
	if s, err := c.Client.RuntimeStatus(c.ctx); err != nil || !s.RuntimeReady || !s.NetworkReady {
		c.Fatalf("runtime status: %+v %v", s, err)
	}
	var err error
	c.config = c.pod(0)
	c.sandbox, err = c.Client.RunPodSandbox(c.ctx, c.config, "")
	c.must(err)
	if _, err := c.Client.RunPodSandbox(c.ctx, c.config, ""); !errors.Is(err, cri.ErrExists) {
		c.Errorf("a second sandbox of the same name: %v (%s)", err, status.Code(err))
	}
	o, err := c.Client.List(c.ctx)
	c.must(err)
	own := func(p *cri.Pod) bool {
		return p.UID == conformUID && p.Name == "conform" && p.Namespace == "default" && p.Source == "file" && p.Running()
	}
	if !slices.ContainsFunc(o.Own, own) {
		c.Errorf("the pod is not among ours: %+v", o.Own)
	}
	s := c.status()
	if len(s.Sandboxes) != 1 || !s.Sandboxes[0].Ready || !s.Sandboxes[0].HostNetwork || len(s.IPs) != 0 ||
		s.Sandboxes[0].CreatedAt.IsZero() {
		c.Errorf("sandbox: %+v", s)
	}
}

func (c *conformance) containers() {
	image := c.Image
	c.Image = "registry.invalid/none:1"
	if _, err := c.create("none", Behaviour{}, "sleep", "1"); !errors.Is(err, cri.ErrNotFound) {
		c.Errorf("a container of an image that is not there: %v", err)
	}
	if i, err := c.Client.ImageStatus(c.ctx, c.Image); i != nil || err != nil {
		c.Errorf("an image that is not there: %v %v", i, err)
	}
	c.Image = image
	if i, err := c.Client.ImageStatus(c.ctx, c.Image); i == nil || err != nil {
		c.Errorf("image: %v %v", i, err)
	}

	id, err := c.create("stubborn", Behaviour{IgnoreTerm: true}, "sleep", "1000")
	c.must(err)
	if _, err := c.create("stubborn", Behaviour{IgnoreTerm: true}, "sleep", "1000"); !errors.Is(err, cri.ErrExists) {
		c.Errorf("a second container of the same name: %v", err)
	}
	if k := c.status().Newest("stubborn"); k == nil || k.ID != id || k.State != cri.StateCreated ||
		!k.StartedAt.IsZero() || k.SandboxID != c.sandbox {
		c.Errorf("created: %+v", k)
	}
	c.must(c.Client.StopContainer(c.ctx, id, time.Second)) // of one that never ran
	c.must(c.Client.StartContainer(c.ctx, id))
	if k := c.status().Newest("stubborn"); k.State != cri.StateRunning || k.StartedAt.IsZero() || !k.FinishedAt.IsZero() ||
		k.ImageRef == "" || k.Hash != "ab12" {
		c.Errorf("running: %+v", k)
	}
	if err := c.Client.StartContainer(c.ctx, id); err == nil {
		c.Error("a running container was started")
	}
	c.must(c.Client.ReopenContainerLog(c.ctx, id))
	if r, err := c.Client.ExecSync(c.ctx, id, []string{"true"}, 10*time.Second); err != nil || r.ExitCode != 0 {
		c.Errorf("exec: %+v %v", r, err)
	}
	if c.Fake != nil {
		c.Fake.Inject("ExecSync", Fault{Delay: time.Second,
			Before: Err(codes.DeadlineExceeded, "failed to exec in container: timeout 1s exceeded: context deadline exceeded")})
	}
	if _, err := c.Client.ExecSync(c.ctx, id, []string{"sleep", "1000"}, time.Second); !errors.Is(err, cri.ErrTimeout) {
		c.Errorf("exec that takes too long: %v (%s)", err, status.Code(err))
	}
}

func (c *conformance) endings() {
	stubborn := c.status().Newest("stubborn").ID
	start := time.Now()
	c.must(c.Client.StopContainer(c.ctx, stubborn, time.Second))
	if took := time.Since(start); took < 900*time.Millisecond {
		c.Errorf("the grace was %v, not 1s", took)
	}
	if k := c.exited("stubborn"); k.ExitCode != 137 || k.Reason != "Error" || k.FinishedAt.IsZero() {
		c.Errorf("killed after its grace: %+v", k)
	}
	c.must(c.Client.StopContainer(c.ctx, stubborn, time.Second)) // again
	if err := c.Client.StartContainer(c.ctx, stubborn); err == nil {
		c.Error("an exited container was started")
	}
	if _, err := c.Client.ExecSync(c.ctx, stubborn, []string{"true"}, time.Second); err == nil {
		c.Error("exec in an exited container")
	}

	c.run("quick", Behaviour{ExitAtOnce: true, ExitCode: 3}, "sh", "-c", "exit 3")
	if k := c.exited("quick"); k.ExitCode != 3 || k.Reason != "Error" || k.StartedAt.IsZero() || k.FinishedAt.IsZero() {
		c.Errorf("exited with 3: %+v", k)
	}
	c.run("done", Behaviour{ExitAtOnce: true}, "true")
	if k := c.exited("done"); k.ExitCode != 0 || k.Reason != "Completed" {
		c.Errorf("exited with 0: %+v", k)
	}

	broken, err := c.create("broken", Behaviour{StartError: `exec: "/no/such/file": no such file or directory`},
		"/no/such/file")
	c.must(err)
	if err := c.Client.StartContainer(c.ctx, broken); err == nil {
		c.Error("a command that is not there was started")
	}
	if k := c.status().Newest("broken"); k == nil || k.State != cri.StateExited || k.ExitCode != 128 ||
		k.Reason != "StartError" ||
		!strings.Contains(k.Message, "no such file or directory") {
		c.Errorf("a failed start: %+v", k)
	}
}

func (c *conformance) removal() {
	forced := c.run("forced", Behaviour{}, "sleep", "1000")
	c.must(c.Client.RemoveContainer(c.ctx, forced)) // while it runs
	c.must(c.Client.RemoveContainer(c.ctx, forced)) // again
	if k := c.status().Newest("forced"); k != nil {
		c.Errorf("removed: %+v", k)
	}
	if err := c.Client.StartContainer(c.ctx, forced); !errors.Is(err, cri.ErrNotFound) {
		c.Errorf("start of what is not there: %v", err)
	}

	c.run("left", Behaviour{}, "sleep", "1000")
	c.must(c.Client.StopPodSandbox(c.ctx, c.sandbox))
	c.must(c.Client.StopPodSandbox(c.ctx, c.sandbox)) // again
	if s := c.status(); s.Sandboxes[0].Ready {
		c.Error("a stopped sandbox is ready")
	}
	if k := c.exited("left"); k.ExitCode != 137 {
		c.Errorf("what ran in a stopped sandbox: %+v", k)
	}
	if _, err := c.create("late", Behaviour{}, "sleep", "1000"); err == nil {
		c.Error("a container was made in a stopped sandbox")
	}

	// The next attempt exists next to the dead one, and may be removed as it is.
	old := c.sandbox
	var err error
	c.config = c.pod(1)
	c.sandbox, err = c.Client.RunPodSandbox(c.ctx, c.config, "")
	c.must(err)
	if s := c.status(); len(s.Sandboxes) != 2 || s.Sandboxes[0].ID != c.sandbox || s.Sandboxes[0].Attempt != 1 {
		c.Errorf("two attempts: %+v", s.Sandboxes)
	}
	c.must(c.Client.RemovePodSandbox(c.ctx, old))
	c.must(c.Client.RemovePodSandbox(c.ctx, old)) // again
	if s := c.status(); len(s.Sandboxes) != 1 || len(s.Containers) != 0 {
		c.Errorf("after the removal: %+v", s)
	}
	c.must(c.Client.RemovePodSandbox(c.ctx, c.sandbox)) // while it is ready
	if s := c.status(); len(s.Sandboxes)+len(s.Containers) != 0 {
		c.Errorf("in the end: %+v", s)
	}
}

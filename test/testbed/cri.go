package testbed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// CRI is a plain CRI client. It shares no code with the product's client, so that a mistake in
// one cannot hide a mistake in the other.
type CRI struct {
	Runtime runtimeapi.RuntimeServiceClient
	Images  runtimeapi.ImageServiceClient
	conn    *grpc.ClientConn
}

// DialCRI returns a client for the socket at this path. It connects on first use.
func DialCRI(socket string) (*CRI, error) {
	conn, err := grpc.NewClient("unix://"+socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{
			BaseDelay: 20 * time.Millisecond, Multiplier: 1.5, MaxDelay: 200 * time.Millisecond}}))
	if err != nil {
		return nil, err
	}
	return &CRI{
		Runtime: runtimeapi.NewRuntimeServiceClient(conn),
		Images:  runtimeapi.NewImageServiceClient(conn),
		conn:    conn,
	}, nil
}

// Close ends the connection.
func (c *CRI) Close() error { return c.conn.Close() }

// Ready returns nil when the runtime and its network are ready.
func (c *CRI) Ready(ctx context.Context) error {
	return c.ready(ctx, runtimeapi.RuntimeReady, runtimeapi.NetworkReady)
}

// ready checks these conditions of the runtime.
func (c *CRI) ready(ctx context.Context, conditions ...string) error {
	s, err := c.Runtime.Status(ctx, &runtimeapi.StatusRequest{})
	if err != nil {
		return err
	}
	for _, cond := range s.GetStatus().GetConditions() {
		// Other conditions, such as deprecation warnings, do not affect readiness.
		if slices.Contains(conditions, cond.Type) && !cond.Status {
			return fmt.Errorf("%s is false: %s", cond.Type, cond.Message)
		}
	}
	return nil
}

// Sandboxes lists the sandboxes with the label, or all if key is empty.
func (c *CRI) Sandboxes(ctx context.Context, key, value string) ([]*runtimeapi.PodSandbox, error) {
	f := &runtimeapi.PodSandboxFilter{}
	if key != "" {
		f.LabelSelector = map[string]string{key: value}
	}
	r, err := c.Runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{Filter: f})
	return r.GetItems(), err
}

// Containers lists the containers with the label, or all if key is empty.
func (c *CRI) Containers(ctx context.Context, key, value string) ([]*runtimeapi.Container, error) {
	f := &runtimeapi.ContainerFilter{}
	if key != "" {
		f.LabelSelector = map[string]string{key: value}
	}
	r, err := c.Runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: f})
	return r.GetContainers(), err
}

// Pid returns the process ID of a container's first process, 0 if the container does not run.
func (c *CRI) Pid(ctx context.Context, id string) (int, error) {
	s, err := c.Runtime.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: id, Verbose: true})
	if err != nil {
		return 0, err
	}
	var info struct{ Pid int }
	if err := json.Unmarshal([]byte(s.Info["info"]), &info); err != nil {
		return 0, fmt.Errorf("container %s reports no pid: %w", id, err)
	}
	return info.Pid, nil
}

// SandboxPid returns the process ID of a sandbox's pause process.
func (c *CRI) SandboxPid(ctx context.Context, id string) (int, error) {
	s, err := c.Runtime.PodSandboxStatus(ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: id, Verbose: true})
	if err != nil {
		return 0, err
	}
	var info struct{ Pid int }
	if err := json.Unmarshal([]byte(s.Info["info"]), &info); err != nil || info.Pid == 0 {
		return 0, fmt.Errorf("sandbox %s reports no pid: %w", id, err)
	}
	return info.Pid, nil
}

// execTimeout bounds a command in a container, in seconds. A busy machine takes long to start one.
const execTimeout = 180

// Exec runs a command in a container and returns its output. An exit code other than 0 is an
// error.
func (c *CRI) Exec(ctx context.Context, id string, command ...string) (string, error) {
	r, err := c.Runtime.ExecSync(ctx, &runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: command, Timeout: execTimeout})
	if err != nil {
		return "", err
	}
	if r.ExitCode != 0 {
		return string(r.Stdout), fmt.Errorf("%s ended with %d: %s", strings.Join(command, " "), r.ExitCode, r.Stderr)
	}
	return string(r.Stdout), nil
}

// RemoveAll stops and removes every pod in the runtime. It repeats calls that fail or that do not
// return, until the context ends.
func (c *CRI) RemoveAll(ctx context.Context) error {
	for {
		left, err := c.removeOnce(ctx)
		if left == 0 && err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d pods are left: %w", left, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// callTimeout bounds a call of RemoveAll: it may wait forever for the end of a process that the
// runtime has missed, while the next call looks at the process again.
const callTimeout = time.Minute

// removeOnce tries to remove every pod, and returns how many could not be removed.
func (c *CRI) removeOnce(ctx context.Context) (left int, err error) {
	call := func(f func(ctx context.Context) error) error {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		return f(ctx)
	}
	var all []*runtimeapi.PodSandbox
	if err := call(func(ctx context.Context) (err error) {
		all, err = c.Sandboxes(ctx, "", "")
		return err
	}); err != nil {
		return 0, err
	}
	results := make(chan error, len(all))
	limit := make(chan struct{}, 8)
	for _, s := range all {
		go func() {
			limit <- struct{}{}
			defer func() { <-limit }()
			results <- call(func(ctx context.Context) error { return c.RemovePod(ctx, s.Id) })
		}()
	}
	var errs []error
	for range all {
		if err := <-results; err != nil {
			errs = append(errs, err)
		}
	}
	return len(errs), errors.Join(errs...)
}

// RemovePod stops and removes one sandbox with its containers.
func (c *CRI) RemovePod(ctx context.Context, sandbox string) error {
	if _, err := c.Runtime.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: sandbox}); err != nil {
		return err
	}
	_, err := c.Runtime.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: sandbox})
	return err
}

// Pull pulls an image.
func (c *CRI) Pull(ctx context.Context, image string) error {
	_, err := c.Images.PullImage(ctx, &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: image}})
	return err
}

// BarePod is a pod with one container, created with plain CRI calls. The benchmark compares
// the daemon with it, and the tests use it as another client's pod.
type BarePod struct {
	Name, Namespace, UID string
	LogDir               string
	Command              []string
	Sandbox, Container   string // IDs, set by Start
}

// Start creates the sandbox, and creates and starts the container.
func (c *CRI) Start(ctx context.Context, p *BarePod) error {
	s, err := c.Runtime.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: p.config()})
	if err != nil {
		return err
	}
	p.Sandbox = s.PodSandboxId
	return c.StartContainer(ctx, p, 0)
}

// config returns the sandbox configuration, with the labels that identify a pod.
func (p *BarePod) config() *runtimeapi.PodSandboxConfig {
	return &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: p.Name, Namespace: p.Namespace, Uid: p.UID},
		Hostname:     p.Name,
		LogDirectory: p.LogDir,
		Labels: map[string]string{
			"io.kubernetes.pod.name": p.Name, "io.kubernetes.pod.namespace": p.Namespace, "io.kubernetes.pod.uid": p.UID,
			"io.kubernetes.container.name": "main",
		},
		Linux: &runtimeapi.LinuxPodSandboxConfig{},
	}
}

// StartContainer creates and starts an instance of the pod's container in its sandbox. attempt
// is the number of the instance, from 0.
func (c *CRI) StartContainer(ctx context.Context, p *BarePod, attempt uint32) error {
	sandbox := p.config()
	created, err := c.Runtime.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{
		PodSandboxId:  p.Sandbox,
		SandboxConfig: sandbox,
		Config: &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: "main", Attempt: attempt},
			Image:    &runtimeapi.ImageSpec{Image: BusyboxImage},
			Command:  p.Command,
			Labels:   sandbox.Labels,
			LogPath:  "main.log",
			Linux:    &runtimeapi.LinuxContainerConfig{},
		},
	})
	if err != nil {
		return err
	}
	p.Container = created.ContainerId
	_, err = c.Runtime.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: p.Container})
	return err
}

// Version returns the runtime's name and version.
func (c *CRI) Version(ctx context.Context) (string, error) {
	v, err := c.Runtime.Version(ctx, &runtimeapi.VersionRequest{})
	if err != nil {
		return "", err
	}
	return v.RuntimeName + " " + v.RuntimeVersion, nil
}

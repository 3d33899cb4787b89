package cri

import (
	"context"
	"encoding/json"
	"fmt"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Streams selects the streams of a session. A terminal has no Stderr of its own.
type Streams struct {
	Stdin, Stdout, Stderr, TTY bool
}

// Exec requests a session that runs a new command in a container. It returns the
// URL at which the runtime serves the session once, within about a minute. The
// command starts when the streams are opened there.
func (c *Client) Exec(ctx context.Context, id string, command []string, s Streams) (url string, err error) {
	a, err := write(ctx, c, operation{"open a session in container", id}, c.timeout, runtimeapi.RuntimeServiceClient.Exec,
		&runtimeapi.ExecRequest{ContainerId: id, Cmd: command, Tty: s.TTY, Stdin: s.Stdin, Stdout: s.Stdout, Stderr: s.Stderr})
	if err != nil {
		return "", err
	}
	return a.Url, nil
}

// Attach is Exec for the process that the container already runs.
func (c *Client) Attach(ctx context.Context, id string, s Streams) (url string, err error) {
	a, err := write(ctx, c, operation{"attach to container", id}, c.timeout, runtimeapi.RuntimeServiceClient.Attach,
		&runtimeapi.AttachRequest{ContainerId: id, Tty: s.TTY, Stdin: s.Stdin, Stdout: s.Stdout, Stderr: s.Stderr})
	if err != nil {
		return "", err
	}
	return a.Url, nil
}

// PortForward requests a session with ports of a sandbox, like Exec.
func (c *Client) PortForward(ctx context.Context, sandboxID string, ports ...int32) (url string, err error) {
	a, err := write(ctx, c, operation{"forward ports of pod sandbox", sandboxID}, c.timeout, runtimeapi.RuntimeServiceClient.PortForward,
		&runtimeapi.PortForwardRequest{PodSandboxId: sandboxID, Port: ports})
	if err != nil {
		return "", err
	}
	return a.Url, nil
}

// SandboxPid returns the ID of a process on the host that is in the namespaces of
// a sandbox. CRI does not require runtimes to report it; if the runtime does not,
// that is an error.
func (c *Client) SandboxPid(ctx context.Context, id string) (int, error) {
	a, err := read(ctx, c, operation{"inspect pod sandbox", id}, runtimeapi.RuntimeServiceClient.PodSandboxStatus,
		&runtimeapi.PodSandboxStatusRequest{PodSandboxId: id, Verbose: true})
	if err != nil {
		return 0, err
	}
	return pidOf(a.Info, operation{"pod sandbox", id})
}

// pidOf reads what containerd and CRI-O report beyond CRI.
func pidOf(info map[string]string, of operation) (int, error) {
	var known struct{ Pid int }
	if err := json.Unmarshal([]byte(info["info"]), &known); err != nil || known.Pid <= 0 {
		return 0, fmt.Errorf("the container runtime does not report the process ID of %s", of)
	}
	return known.Pid, nil
}

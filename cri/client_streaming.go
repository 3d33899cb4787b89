package cri

import (
	"context"
	"encoding/json"
	"fmt"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Streams are those of a command that a session carries. A terminal has no
// Stderr of its own.
type Streams struct {
	Stdin, Stdout, Stderr, TTY bool
}

// Exec asks for a session with a new command in a container: the answer is the
// URL at which the runtime serves it once, within a minute or so. The command
// begins when the streams are opened there.
func (c *Client) Exec(ctx context.Context, id string, command []string, s Streams) (url string, err error) {
	a, err := write(ctx, c, operation{"open a session in container", id}, c.timeout, runtimeapi.RuntimeServiceClient.Exec,
		&runtimeapi.ExecRequest{ContainerId: id, Cmd: command, Tty: s.TTY, Stdin: s.Stdin, Stdout: s.Stdout, Stderr: s.Stderr})
	if err != nil {
		return "", err
	}
	return a.Url, nil
}

// Attach is Exec with what the container runs already.
func (c *Client) Attach(ctx context.Context, id string, s Streams) (url string, err error) {
	a, err := write(ctx, c, operation{"attach to container", id}, c.timeout, runtimeapi.RuntimeServiceClient.Attach,
		&runtimeapi.AttachRequest{ContainerId: id, Tty: s.TTY, Stdin: s.Stdin, Stdout: s.Stdout, Stderr: s.Stderr})
	if err != nil {
		return "", err
	}
	return a.Url, nil
}

// PortForward asks for a session with ports of a sandbox, as Exec does.
func (c *Client) PortForward(ctx context.Context, sandboxID string, ports ...int32) (url string, err error) {
	a, err := write(ctx, c, operation{"forward ports of pod sandbox", sandboxID}, c.timeout, runtimeapi.RuntimeServiceClient.PortForward,
		&runtimeapi.PortForwardRequest{PodSandboxId: sandboxID, Port: ports})
	if err != nil {
		return "", err
	}
	return a.Url, nil
}

// SandboxPid is the ID of a process on the host that is in the namespaces of a
// sandbox. No runtime has to tell it: where one does not, it is an error.
func (c *Client) SandboxPid(ctx context.Context, id string) (int, error) {
	a, err := read(ctx, c, operation{"look at pod sandbox", id}, runtimeapi.RuntimeServiceClient.PodSandboxStatus,
		&runtimeapi.PodSandboxStatusRequest{PodSandboxId: id, Verbose: true})
	if err != nil {
		return 0, err
	}
	return pidOf(a.Info, operation{"pod sandbox", id})
}

// pidOf reads what containerd and CRI-O say beyond CRI.
func pidOf(info map[string]string, of operation) (int, error) {
	var known struct{ Pid int }
	if err := json.Unmarshal([]byte(info["info"]), &known); err != nil || known.Pid <= 0 {
		return 0, fmt.Errorf("the container runtime does not tell the process of %s", of)
	}
	return known.Pid, nil
}

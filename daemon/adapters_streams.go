package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/httpapi/streaming"
	"github.com/podstead/podstead/supervisor/pleg"
)

// containerStreams opens sessions with containers over CRI.
type containerStreams struct {
	client   *cri.Client
	observer *pleg.PLEG
}

// Exec implements httpapi.ContainerStreams.
func (s containerStreams) Exec(ctx context.Context, id string, command []string, o streaming.Options) (string, error) {
	return s.client.Exec(ctx, id, command, cri.Streams(o))
}

// Attach implements httpapi.ContainerStreams.
func (s containerStreams) Attach(ctx context.Context, id string, o streaming.Options) (string, error) {
	return s.client.Attach(ctx, id, cri.Streams(o))
}

// maxRunOutput is how much a command of /run may print, in bytes: the output of each request is in
// memory. A session has no limit.
const maxRunOutput = 256 << 10

// Run implements httpapi.ContainerStreams. The command may run as long as the client
// waits.
func (s containerStreams) Run(ctx context.Context, id string, command []string) ([]byte, error) {
	r, err := s.client.ExecBounded(ctx, id, command, 0, maxRunOutput)
	if errors.Is(err, cri.ErrOutputTooLarge) {
		err = fmt.Errorf("%w: print less than %d KiB, or use exec", err, maxRunOutput>>10)
	}
	out := slices.Concat(r.Stdout, r.Stderr)
	if err == nil && r.ExitCode != 0 {
		err = fmt.Errorf("the command ended with exit code %d", r.ExitCode)
	}
	return out, err
}

// Dial implements httpapi.ContainerStreams. It enters the pod's network namespace
// itself, and uses the runtime's port forwarding where that is not possible.
func (s containerStreams) Dial(ctx context.Context, pod types.UID, port uint16) (streaming.PortConn, error) {
	st, _ := s.observer.Status(pod)
	for _, b := range st.Sandboxes {
		if !b.Ready {
			continue
		}
		if pid, err := s.client.SandboxPid(ctx, b.ID); err == nil {
			p, err := streaming.DialPortInNamespace(ctx, fmt.Sprintf("/proc/%d/ns/net", pid), port)
			if !errors.Is(err, streaming.ErrNamespaceUnavailable) {
				return p, err
			}
		}
		address, err := s.client.PortForward(ctx, b.ID, int32(port))
		if err != nil {
			return nil, err
		}
		return streaming.DialPortViaRuntime(ctx, address, port)
	}
	return nil, errors.New("the pod does not run any more")
}

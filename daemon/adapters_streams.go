package daemon

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/httpapi/streaming"
	"github.com/podstead/podstead/supervisor/pleg"
)

// containerStreams opens sessions with containers over CRI.
type containerStreams struct {
	*cri.Client
	observer *pleg.PLEG
}

// Exec implements httpapi.ContainerStreams.
func (s containerStreams) Exec(ctx context.Context, id string, command []string, o streaming.Options) (string, error) {
	return s.Client.Exec(ctx, id, command, cri.Streams(o))
}

// Attach implements httpapi.ContainerStreams.
func (s containerStreams) Attach(ctx context.Context, id string, o streaming.Options) (string, error) {
	return s.Client.Attach(ctx, id, cri.Streams(o))
}

// Dial implements httpapi.ContainerStreams.
func (s containerStreams) Dial(ctx context.Context, pod types.UID, port uint16) (streaming.PortConn, error) {
	st, _ := s.observer.Status(pod)
	sandbox := st.ReadySandbox()
	if sandbox == nil {
		return nil, errors.New("the pod does not run any more")
	}
	return streaming.DialPort(ctx, s.Client, sandbox.ID, port)
}

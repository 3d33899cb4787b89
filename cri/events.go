package cri

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Events calls f for each event of the runtime's stream until the stream or ctx
// ends, which is always an error: ErrUnimplemented if this runtime has no such
// stream (containerd before 1.7), ErrUnavailable if it broke. Events before the
// stream was established and after it broke are lost. f must not block.
//
// An event that does not name its pod has an empty UID; containerd 1.7 sends one
// when a sandbox is removed.
func (c *Client) Events(ctx context.Context, f func(Event)) error {
	op := operation{verb: "follow container events"}
	// The stream's goroutine ends with this context, also when f panics.
	ctx2, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.runtime.GetContainerEvents(ctx2, &runtimeapi.GetEventsRequest{}, grpc.WaitForReady(false))
	if err != nil {
		return c.wrapError(ctx, op, noLimit, err)
	}
	for {
		response, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return &Error{Op: op.String(), Detail: "the runtime closed the stream", class: ErrUnavailable, cause: err}
		}
		if err != nil {
			return c.wrapError(ctx, op, noLimit, err)
		}
		if e, ok := c.event(response); ok {
			f(e)
		}
	}
}

func (c *Client) event(response *runtimeapi.ContainerEventResponse) (Event, bool) {
	e := Event{ContainerID: response.GetContainerId()}
	switch response.GetContainerEventType() {
	case runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT:
		e.Kind = EventCreated
	case runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT:
		e.Kind = EventStarted
	case runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT:
		e.Kind = EventStopped
	case runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT:
		e.Kind = EventDeleted
	default:
		return Event{}, false
	}
	labels := response.GetPodSandboxStatus().GetLabels()
	e.UID = types.UID(labels[LabelPodUID])
	if e.UID == "" {
		e.UID = types.UID(response.GetPodSandboxStatus().GetMetadata().GetUid())
	}
	e.Foreign = e.UID != "" && (c.instance == "" || labels[LabelInstance] != c.instance)
	return e, true
}

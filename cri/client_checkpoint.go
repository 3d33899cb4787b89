package cri

import (
	"context"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Checkpoint writes the state of a running container to a file. A timeout of 0 is
// the runtime's own. If the runtime has no such call, the error is
// ErrUnimplemented.
func (c *Client) Checkpoint(ctx context.Context, id, file string, timeout time.Duration) error {
	limit := noLimit
	if timeout > 0 {
		// The runtime enforces the timeout itself; this limit is for one that
		// does not.
		limit = timeout + c.timeout
	}
	_, err := write(ctx, c, operation{"checkpoint container", id}, limit,
		runtimeapi.RuntimeServiceClient.CheckpointContainer,
		&runtimeapi.CheckpointContainerRequest{ContainerId: id, Location: file, Timeout: int64(timeout.Seconds())})
	return err
}

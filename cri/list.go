package cri

import (
	"context"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// List asks the runtime for all sandboxes and containers, in two calls, and
// groups them into pods, in no order. Containers are listed first, so that no
// container is listed without its sandbox, which was created before it.
//
// The relist calls it every second. The object behind an ID never changes, so
// List reads only the state of known objects, and an unchanged pod is the same
// *Pod as in the previous List.
func (c *Client) List(ctx context.Context) (*Observed, error) {
	start := time.Now()
	scratch := c.inventory.scratch.Get().(*scratch)
	defer scratch.release()
	if _, err := read(ctx, c, operation{verb: "list containers"}, c.containersInto(scratch),
		&runtimeapi.ListContainersRequest{}); err != nil {
		return nil, err
	}
	if _, err := read(ctx, c, operation{verb: "list pod sandboxes"}, c.sandboxesInto(scratch),
		&runtimeapi.ListPodSandboxRequest{}); err != nil {
		return nil, err
	}
	return c.inventory.apply(scratch, start), nil
}

func (c *Client) containersInto(s *scratch) runtimeCall[*runtimeapi.ListContainersRequest, struct{}] {
	return func(_ runtimeapi.RuntimeServiceClient, ctx context.Context, r *runtimeapi.ListContainersRequest,
		_ ...grpc.CallOption) (struct{}, error) {
		return struct{}{}, c.conn.Invoke(ctx, runtimeapi.RuntimeService_ListContainers_FullMethodName, r,
			(*containerItems)(s), listCodec, grpc.MaxCallRecvMsgSize(maxList))
	}
}

func (c *Client) sandboxesInto(s *scratch) runtimeCall[*runtimeapi.ListPodSandboxRequest, struct{}] {
	return func(_ runtimeapi.RuntimeServiceClient, ctx context.Context, r *runtimeapi.ListPodSandboxRequest,
		_ ...grpc.CallOption) (struct{}, error) {
		return struct{}{}, c.conn.Invoke(ctx, runtimeapi.RuntimeService_ListPodSandbox_FullMethodName, r, (*sandboxItems)(s),
			listCodec, grpc.MaxCallRecvMsgSize(maxList))
	}
}

// listContainers and listSandboxes return the objects that have these labels,
// with all fields.
func (c *Client) listContainers(ctx context.Context, labels map[string]string) ([]*runtimeapi.Container, error) {
	a, err := read(ctx, c, operation{verb: "list containers"}, runtimeapi.RuntimeServiceClient.ListContainers,
		&runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{LabelSelector: labels}})
	return a.GetContainers(), err
}

func (c *Client) listSandboxes(ctx context.Context, labels map[string]string) ([]*runtimeapi.PodSandbox, error) {
	a, err := read(ctx, c, operation{verb: "list pod sandboxes"}, runtimeapi.RuntimeServiceClient.ListPodSandbox,
		&runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{LabelSelector: labels}})
	return a.GetItems(), err
}

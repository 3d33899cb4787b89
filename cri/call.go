package cri

import (
	"context"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// operation names a call in errors; it is joined only when there is one.
type operation struct{ verb, object string }

func (o operation) String() string {
	if o.object == "" {
		return o.verb
	}
	return o.verb + " " + o.object
}

// noLimit is the deadline of a call that only its caller may end.
const noLimit time.Duration = 0

type (
	runtimeCall[Q, A any] func(runtimeapi.RuntimeServiceClient, context.Context, Q, ...grpc.CallOption) (A, error)
	imageCall[Q, A any]   func(runtimeapi.ImageServiceClient, context.Context, Q, ...grpc.CallOption) (A, error)
)

// read makes a call that changes nothing. It is tried once more when the
// connection turns out to be dead, as after a restart of the runtime: the
// first call on an old connection is how that is noticed.
func read[Q, A any](ctx context.Context, c *Client, op operation, call runtimeCall[Q, A], request Q) (A, error) {
	ctx2, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	answer, err := call(c.runtime, ctx2, request)
	if status.Code(err) == codes.Unavailable && ctx2.Err() == nil {
		answer, err = call(c.runtime, ctx2, request)
	}
	if err != nil {
		return answer, c.wrapError(ctx, op, c.timeout, err)
	}
	return answer, nil
}

// write makes a call that changes something. It is never repeated: an error
// may hide an effect, and only the next look at the runtime tells.
func write[Q, A any](ctx context.Context, c *Client, op operation, limit time.Duration, call runtimeCall[Q, A], request Q) (A, error) {
	ctx2, cancel := limited(ctx, limit)
	defer cancel()
	answer, err := call(c.runtime, ctx2, request)
	if err != nil {
		return answer, c.wrapError(ctx, op, limit, err)
	}
	return answer, nil
}

// readImage is read for the image service.
func readImage[Q, A any](ctx context.Context, c *Client, op operation, call imageCall[Q, A], request Q) (A, error) {
	ctx2, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	answer, err := call(c.images, ctx2, request)
	if status.Code(err) == codes.Unavailable && ctx2.Err() == nil {
		answer, err = call(c.images, ctx2, request)
	}
	if err != nil {
		return answer, c.wrapError(ctx, op, c.timeout, err)
	}
	return answer, nil
}

// writeImage is write for the image service.
func writeImage[Q, A any](ctx context.Context, c *Client, op operation, limit time.Duration, call imageCall[Q, A], request Q) (A, error) {
	ctx2, cancel := limited(ctx, limit)
	defer cancel()
	answer, err := call(c.images, ctx2, request)
	if err != nil {
		return answer, c.wrapError(ctx, op, limit, err)
	}
	return answer, nil
}

func limited(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if limit == noLimit {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, limit)
}

// observing tells of each call.
func observeCalls(observe func(method string, took time.Duration, err error)) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, request, answer any, conn *grpc.ClientConn, call grpc.UnaryInvoker, options ...grpc.CallOption) error {
		began := time.Now()
		err := call(ctx, method, request, answer, conn, options...)
		observe(method[strings.LastIndexByte(method, '/')+1:], time.Since(began), err)
		return err
	}
}

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

// operation names a call in errors. It is joined into a string only when there is
// an error.
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

// read makes a call that changes nothing. It is repeated once if the connection
// turns out to be dead, as after a restart of the runtime, which the first call
// on an old connection detects.
func read[Q, A any](ctx context.Context, c *Client, op operation, call runtimeCall[Q, A], request Q) (A, error) {
	ctx2, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	response, err := call(c.runtime, ctx2, request)
	if status.Code(err) == codes.Unavailable && ctx2.Err() == nil {
		response, err = call(c.runtime, ctx2, request)
	}
	if err != nil {
		return response, c.wrapError(ctx, op, c.timeout, err)
	}
	return response, nil
}

// write makes a call that changes something. It is never repeated: a failed call
// may have taken effect, which only observing the runtime again can show.
func write[Q, A any](ctx context.Context, c *Client, op operation, limit time.Duration, call runtimeCall[Q, A],
	request Q) (A, error) {
	ctx2, cancel := limited(ctx, limit)
	defer cancel()
	response, err := call(c.runtime, ctx2, request)
	if err != nil {
		return response, c.wrapError(ctx, op, limit, err)
	}
	return response, nil
}

// writeToEnd is write for a call that creates, starts or removes. Once it is made,
// the end of ctx does not end it, only its limit or Close does: a runtime that is
// interrupted between two of its own steps can leave processes, cgroups and
// addresses that no list shows. The caller looks at ctx afterwards.
func writeToEnd[Q, A any](ctx context.Context, c *Client, op operation, limit time.Duration, call runtimeCall[Q, A],
	request Q) (A, error) {
	if err := ctx.Err(); err != nil {
		var none A
		return none, c.wrapError(ctx, op, limit, err)
	}
	return write(context.WithoutCancel(ctx), c, op, limit, call, request)
}

// readImage is read for the image service.
func readImage[Q, A any](ctx context.Context, c *Client, op operation, call imageCall[Q, A], request Q) (A, error) {
	ctx2, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	response, err := call(c.images, ctx2, request)
	if status.Code(err) == codes.Unavailable && ctx2.Err() == nil {
		response, err = call(c.images, ctx2, request)
	}
	if err != nil {
		return response, c.wrapError(ctx, op, c.timeout, err)
	}
	return response, nil
}

// writeImage is write for the image service.
func writeImage[Q, A any](ctx context.Context, c *Client, op operation, limit time.Duration, call imageCall[Q, A],
	request Q) (A, error) {
	ctx2, cancel := limited(ctx, limit)
	defer cancel()
	response, err := call(c.images, ctx2, request)
	if err != nil {
		return response, c.wrapError(ctx, op, limit, err)
	}
	return response, nil
}

func limited(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if limit == noLimit {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, limit)
}

// observeCalls returns an interceptor that reports each call to observe.
func observeCalls(observe func(method string, took time.Duration, err error)) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, request, response any, conn *grpc.ClientConn, call grpc.UnaryInvoker,
		options ...grpc.CallOption) error {
		start := time.Now()
		err := call(ctx, method, request, response, conn, options...)
		observed := err
		if status.Code(err) == codes.Unimplemented {
			observed = ErrUnimplemented
		}
		observe(method[strings.LastIndexByte(method, '/')+1:], time.Since(start), observed)
		return err
	}
}

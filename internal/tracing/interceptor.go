package tracing

import (
	"context"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// Interceptor records each call that belongs to a span as a span below it, and passes its
// context to the server.
func Interceptor(ctx context.Context, method string, request, response any, conn *grpc.ClientConn,
	call grpc.UnaryInvoker, options ...grpc.CallOption) error {
	service, name, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	s := StartCall(ctx, strings.TrimPrefix(method, "/"), Attribute{"rpc.system", "grpc"},
		Attribute{"rpc.service", service}, Attribute{"rpc.method", name})
	if s == nil {
		return call(ctx, method, request, response, conn, options...)
	}
	err := call(metadata.AppendToOutgoingContext(ctx, "traceparent", s.Traceparent()), method, request, response, conn,
		options...)
	s.End(err)
	return err
}

package tracingtest

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"
)

// Collector keeps what it receives.
type Collector struct {
	mu       sync.Mutex
	requests [][]byte
}

// Serve serves a Collector on a listener until stop is called.
func Serve(l net.Listener) (c *Collector, stop func()) {
	c = &Collector{}
	server := grpc.NewServer()
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "opentelemetry.proto.collector.trace.v1.TraceService", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Export", Handler: c.export}},
	}, nil)
	go func() { _ = server.Serve(l) }()
	return c, server.Stop
}

// Listen serves a Collector on an address, such as 127.0.0.1:0, until the test ends, and
// returns the address that it got.
func Listen(t *testing.T, address string) (*Collector, string) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	c, stop := Serve(l)
	t.Cleanup(stop)
	return c, l.Addr().String()
}

// export keeps a request. An empty message keeps all fields as they arrived.
//
//nolint:revive // the signature of a method of grpc.MethodDesc
func (c *Collector) export(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any,
	error) {
	request := &emptypb.Empty{}
	if err := decode(request); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests = append(c.requests, request.ProtoReflect().GetUnknown())
	return &emptypb.Empty{}, nil
}

// Requests returns the encoded requests.
func (c *Collector) Requests() [][]byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requests
}

// Spans returns all spans.
func (c *Collector) Spans() (spans []Span, err error) {
	for _, request := range c.Requests() {
		more, err := decode(request)
		if err != nil {
			return nil, fmt.Errorf("a request is malformed: %w", err)
		}
		spans = append(spans, more...)
	}
	return spans, nil
}

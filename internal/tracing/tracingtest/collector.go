package tracingtest

import (
	"context"
	"net"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"
)

// Collector keeps what it receives.
type Collector struct {
	t        *testing.T
	mu       sync.Mutex
	requests [][]byte
}

// Listen serves a Collector on an address, such as 127.0.0.1:0, until the test ends, and
// returns the address that it got.
func Listen(t *testing.T, address string) (*Collector, string) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	c := &Collector{t: t}
	server := grpc.NewServer()
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "opentelemetry.proto.collector.trace.v1.TraceService", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Export", Handler: c.export}},
	}, nil)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	return c, l.Addr().String()
}

// export keeps a request. An empty message keeps all fields as they arrived.
func (c *Collector) export(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
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
func (c *Collector) Spans() (spans []Span) {
	c.t.Helper()
	for _, request := range c.Requests() {
		more, err := decode(request)
		if err != nil {
			c.t.Fatalf("a request is malformed: %v", err)
		}
		spans = append(spans, more...)
	}
	return spans
}

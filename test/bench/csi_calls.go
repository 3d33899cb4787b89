package main

import (
	"net"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// timedCalls passes the calls of a CSI driver on and times them. The driver records its calls, not how
// long they took; so what is timed includes the way to the driver and back.
type timedCalls struct {
	server *grpc.Server
	driver *grpc.ClientConn

	mu    sync.Mutex
	calls []timedCall
}

type timedCall struct{ begin, end time.Time }

// timeCalls serves the driver at one socket, where the driver itself serves at the other.
func timeCalls(at, driver string) (*timedCalls, error) {
	conn, err := grpc.NewClient("unix://"+driver, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("unix", at)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	t := &timedCalls{driver: conn}
	t.server = grpc.NewServer(grpc.ForceServerCodec(encoded{}), grpc.UnknownServiceHandler(t.pass))
	go func() { _ = t.server.Serve(listener) }()
	return t, nil
}

func (t *timedCalls) stop() {
	t.server.Stop()
	_ = t.driver.Close()
}

// pass passes a call on.
func (t *timedCalls) pass(_ any, stream grpc.ServerStream) error {
	var request, response []byte
	if err := stream.RecvMsg(&request); err != nil {
		return err
	}
	method, _ := grpc.MethodFromServerStream(stream)
	begin := time.Now()
	// The driver may not serve yet when its registrar has registered it.
	err := t.driver.Invoke(stream.Context(), method, &request, &response, grpc.ForceCodec(encoded{}),
		grpc.WaitForReady(true))
	t.mu.Lock()
	t.calls = append(t.calls, timedCall{begin, time.Now()})
	t.mu.Unlock()
	if err != nil {
		return err
	}
	return stream.SendMsg(&response)
}

// between returns the sum of the calls within a span of time.
func (t *timedCalls) between(begin, end time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	var sum time.Duration
	for _, c := range t.calls {
		if !c.begin.Before(begin) && !c.end.After(end) {
			sum += c.end.Sub(c.begin)
		}
	}
	return sum
}

// encoded is a codec that leaves messages encoded.
type encoded struct{}

// Name implements encoding.Codec.
func (encoded) Name() string { return "proto" }

// Marshal implements encoding.Codec.
func (encoded) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }

// Unmarshal implements encoding.Codec.
func (encoded) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = slices.Clone(data)
	return nil
}

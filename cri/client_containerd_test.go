package cri

import (
	"context"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// containerdServer serves calls of containerd's API by their method, as they are on the wire.
type containerdServer struct {
	serve func(method string, request []byte) ([]byte, error)
	calls []string
}

func (s *containerdServer) handle(_ any, stream grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(stream)
	method = strings.TrimPrefix(method, "/containerd.services.")
	var request []byte
	if err := stream.RecvMsg(&request); err != nil {
		return err
	}
	md, _ := metadata.FromIncomingContext(stream.Context())
	if !slices.Equal(md["containerd-namespace"], []string{"k8s.io"}) {
		return status.Errorf(codes.InvalidArgument, "namespace %q", md["containerd-namespace"])
	}
	s.calls = append(s.calls, method)
	response, err := s.serve(method, request)
	if err != nil {
		return err
	}
	return stream.SendMsg(response)
}

func serveContainerd(t *testing.T, s *containerdServer) *Client {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := new(net.ListenConfig).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.UnknownServiceHandler(s.handle), grpc.ForceServerCodec(rawCodec{}))
	go func() { _ = server.Serve(listener) }() // until it is stopped
	t.Cleanup(server.Stop)
	client, err := Dial(Options{Endpoint: socket})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// field appends a field with bytes, a string or a message.
func field[T string | []byte](message []byte, number protowire.Number, value T) []byte {
	return protowire.AppendBytes(protowire.AppendTag(message, number, protowire.BytesType), []byte(value))
}

func leaseOf(t *testing.T, id string, created time.Time, label string) []byte {
	t.Helper()
	at, err := proto.Marshal(timestamppb.New(created))
	if err != nil {
		t.Fatal(err)
	}
	return field(field(field([]byte(nil), fieldLeaseID, id), fieldLeaseCreated, at), fieldLeaseLabels,
		field(field([]byte(nil), fieldMapKey, label), 2, "x"))
}

// Only leases that expire and that the caller wants to drop are deleted, and the last deletion waits for the removal of
// what they kept.
func TestDropLeases(t *testing.T) {
	now := time.Unix(1_800_000_000, 5)
	var deleted []string
	s := &containerdServer{serve: func(method string, request []byte) ([]byte, error) {
		if method == "leases.v1.Leases/Delete" {
			deleted = append(deleted, string(request))
			if len(deleted) == 1 {
				return nil, status.Error(codes.NotFound, "gone")
			}
			return nil, nil
		}
		var list []byte
		for _, l := range [][]byte{
			leaseOf(t, "old", now.Add(-time.Hour), leaseExpires), leaseOf(t, "new", now, leaseExpires),
			leaseOf(t, "sandbox", now.Add(-time.Hour), "other"), leaseOf(t, "oldest", now.Add(-2*time.Hour), leaseExpires),
		} {
			list = field(list, fieldLeases, l)
		}
		return list, nil
	}}
	client := serveContainerd(t, s)
	if err := client.DropLeases(t.Context(), func(created time.Time) bool { return created.Before(now) }); err != nil {
		t.Fatal(err)
	}
	want := []string{"\n\x03old", "\n\x06oldest\x10\x01"}
	if !slices.Equal(deleted, want) {
		t.Errorf("deleted %q, want %q", deleted, want)
	}
}

// The image of an ID is created under the name, with its other fields.
func TestRestoreImageName(t *testing.T) {
	target := field(field([]byte(nil), 2, "label"), 3, "target")
	var created []byte
	s := &containerdServer{serve: func(method string, request []byte) ([]byte, error) {
		if method == "images.v1.Images/Get" {
			if want := field([]byte(nil), fieldImageName, "sha256:1"); string(request) != string(want) {
				return nil, status.Errorf(codes.NotFound, "request %q", request)
			}
			return field([]byte(nil), fieldImage, append(field([]byte(nil), fieldImageName, "sha256:1"), target...)), nil
		}
		created = request
		return nil, status.Error(codes.AlreadyExists, "exists")
	}}
	client := serveContainerd(t, s)
	if err := client.RestoreImageName(t.Context(), "web:1", "sha256:1"); err != nil {
		t.Fatal(err)
	}
	want := field([]byte(nil), fieldImage, append(field([]byte(nil), fieldImageName, "web:1"), target...))
	if string(created) != string(want) {
		t.Errorf("created %q, want %q", created, want)
	}
	s.calls = nil
	if err := client.RestoreImageName(t.Context(), "web:1", "sha256:2"); err != nil || len(s.calls) != 1 {
		t.Errorf("without the image: %v, %q", err, s.calls)
	}
}

// Other runtimes have neither leases nor a way to name an image.
func TestContainerdCallsOfOtherRuntimes(t *testing.T) {
	s := &containerdServer{serve: func(string, []byte) ([]byte, error) {
		return nil, status.Error(codes.Unimplemented, "unknown service")
	}}
	client := serveContainerd(t, s)
	if err := client.DropLeases(t.Context(), func(time.Time) bool { return true }); err != nil {
		t.Error(err)
	}
	if err := client.RestoreImageName(context.Background(), "web:1", "sha256:1"); err != nil {
		t.Error(err)
	}
	s.serve = func(string, []byte) ([]byte, error) { return []byte{0xff}, nil }
	if err := client.DropLeases(t.Context(), func(time.Time) bool { return true }); err == nil {
		t.Error("a malformed response is no error")
	}
}

package podresources

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	api "k8s.io/kubelet/pkg/apis/podresources/v1"
	"k8s.io/kubelet/pkg/apis/podresources/v1alpha1"
)

// SocketName is the name of the socket in its directory.
const SocketName = "kubelet.sock"

// Listen creates the socket in a directory, which it creates too. What a daemon that was killed left
// is replaced; the error reports it if another program serves the socket.
func Listen(dir string) (*net.UnixListener, error) {
	socket := filepath.Join(dir, SocketName)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("failed to create the directory of the PodResources API: %w", err)
	}
	if conn, err := net.DialTimeout("unix", socket, time.Second); err == nil {
		_ = conn.Close()
		return nil, fmt.Errorf("another program serves the PodResources API at %s", socket)
	}
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("failed to remove the previous socket of the PodResources API: %w", err)
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("failed to create the socket of the PodResources API: %w", err)
	}
	listener.SetUnlinkOnClose(false)
	return listener, nil
}

// Serve serves the API on a listener, which it closes, until ctx ends. It then removes the socket,
// unless another program, such as a kubelet, has taken its path.
func Serve(ctx context.Context, listener *net.UnixListener, cfg Config) error {
	socket := listener.Addr().String()
	if created, err := os.Lstat(socket); err == nil {
		defer func() {
			if now, err := os.Lstat(socket); err == nil && os.SameFile(now, created) {
				_ = os.Remove(socket)
			}
		}()
	}
	s := grpc.NewServer(grpc.MaxRecvMsgSize(1<<20), grpc.MaxConcurrentStreams(16), grpc.UnaryInterceptor(cfg.count))
	api.RegisterPodResourcesListerServer(s, server{cfg: cfg})
	v1alpha1.RegisterPodResourcesListerServer(s, alphaServer{server: server{cfg: cfg}})
	defer context.AfterFunc(ctx, s.Stop)()
	if err := s.Serve(listener); err != nil && ctx.Err() == nil {
		return fmt.Errorf("failed to serve the PodResources API: %w", err)
	}
	return ctx.Err()
}

// count counts a request, whose method is /VERSION.PodResourcesLister/NAME.
func (c Config) count(ctx context.Context, request any, info *grpc.UnaryServerInfo,
	handle grpc.UnaryHandler) (any, error) {
	answer, err := handle(ctx, request)
	if c.Requested != nil {
		version, _, _ := strings.Cut(path.Dir(info.FullMethod)[1:], ".")
		c.Requested(version, path.Base(info.FullMethod), err)
	}
	return answer, err
}

// devices returns devices in the form of the API, one entry for each as at the kubelet.
func (s server) devices(all map[v1.ResourceName][]string) (list []*api.ContainerDevices) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for _, id := range slices.Sorted(slices.Values(all[name])) {
			list = append(list, &api.ContainerDevices{ResourceName: string(name), DeviceIds: []string{id},
				Topology: topologyOf(s.cfg.Devices.NUMANodes(name, id))})
		}
	}
	return list
}

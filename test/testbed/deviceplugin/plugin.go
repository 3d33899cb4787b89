// Package deviceplugin is a device plugin (API v1beta1) for tests: it registers, lists devices
// whose health the test sets, and responds as the test reports.
package deviceplugin

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/podstead/podstead/internal/wakeup"
)

// Options configure a Plugin.
type Options struct {
	// Dir has the registration socket kubelet.sock.
	Dir, Resource string
	// Registry is the directory of the plugin watcher, in which the plugin waits to be asked, instead
	// of registering at the socket in Dir.
	Registry string
	// Devices are the IDs of the devices, all healthy at first.
	Devices []string
	// Nodes are the NUMA nodes of devices, by ID; without one the plugin reports none.
	Nodes map[string]int64
	// Allocate returns the response for one container; nil returns nothing.
	Allocate func(ctx context.Context, ids []string) (*pluginapi.ContainerAllocateResponse, error)
	// Preferred chooses devices; nil leaves the choice to the node.
	Preferred func(available, must []string, count int) []string
	// PreStart is called before each start of a container; nil is not called.
	PreStart func(ids []string) error
	// OptionsFault is the error of GetDevicePluginOptions; nil responds.
	OptionsFault error
}

// Plugin is a running plugin.
type Plugin struct {
	pluginapi.UnimplementedDevicePluginServer
	registerapi.UnimplementedRegistrationServer
	options Options
	socket  string
	server  *grpc.Server
	watcher *fsnotify.Watcher

	mu      sync.Mutex
	health  map[string]bool
	changed wakeup.Broadcast
	// allocated are the devices of each call of Allocate, in order.
	allocated  [][]string
	registered int
	// rejected is the last error that the plugin watcher reported.
	rejected string
}

// Start starts a plugin and registers it. It registers again when the registration socket is
// created again, until it is stopped.
func Start(o Options) (*Plugin, error) {
	p := &Plugin{options: o, health: map[string]bool{}}
	for _, id := range o.Devices {
		p.health[id] = true
	}
	if o.Registry != "" {
		return p, p.serve()
	}
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	if err := watcher.Add(o.Dir); err != nil {
		return nil, err
	}
	p.watcher = watcher
	if err := p.serve(); err != nil {
		return nil, err
	}
	if err := p.Register(); err != nil {
		p.Stop()
		return nil, err
	}
	go p.watch()
	return p, nil
}

func (p *Plugin) serve() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.socket = filepath.Join(cmp.Or(p.options.Registry, p.options.Dir),
		fmt.Sprintf("plugin-%d.sock", time.Now().UnixNano()))
	listener, err := net.Listen("unix", p.socket)
	if err != nil {
		return err
	}
	p.server = grpc.NewServer()
	pluginapi.RegisterDevicePluginServer(p.server, p)
	if p.options.Registry != "" {
		registerapi.RegisterRegistrationServer(p.server, p)
	}
	go func(server *grpc.Server) { _ = server.Serve(listener) }(p.server)
	return nil
}

// watch registers again after the registration socket was created.
func (p *Plugin) watch() {
	for e := range p.watcher.Events {
		if filepath.Base(e.Name) != "kubelet.sock" || !e.Has(fsnotify.Create) {
			continue
		}
		p.mu.Lock()
		server := p.server
		p.mu.Unlock()
		server.Stop()
		if p.serve() == nil {
			_ = p.Register()
		}
	}
}

// Register registers the plugin.
func (p *Plugin) Register() error {
	conn, err := grpc.NewClient("unix://"+filepath.Join(p.options.Dir, "kubelet.sock"),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	p.mu.Lock()
	request := &pluginapi.RegisterRequest{
		Version: pluginapi.Version, Endpoint: filepath.Base(p.socket), ResourceName: p.options.Resource,
		Options: p.pluginOptions(),
	}
	p.mu.Unlock()
	_, err = pluginapi.NewRegistrationClient(conn).Register(ctx, request, grpc.WaitForReady(true))
	if err == nil {
		p.mu.Lock()
		p.registered++
		p.mu.Unlock()
	}
	return err
}

// GetInfo implements the API of the plugin watcher.
func (p *Plugin) GetInfo(context.Context, *registerapi.InfoRequest) (*registerapi.PluginInfo, error) {
	return &registerapi.PluginInfo{Type: registerapi.DevicePlugin, Name: p.options.Resource, Endpoint: p.socket,
		SupportedVersions: []string{pluginapi.Version}}, nil
}

// NotifyRegistrationStatus implements the API of the plugin watcher.
func (p *Plugin) NotifyRegistrationStatus(_ context.Context,
	s *registerapi.RegistrationStatus) (*registerapi.RegistrationStatusResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rejected = s.GetError(); s.GetPluginRegistered() {
		p.registered++
	}
	return &registerapi.RegistrationStatusResponse{}, nil
}

// Rejected returns the error that the plugin watcher reported last; empty for none.
func (p *Plugin) Rejected() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rejected
}

// Registered returns how often the plugin has registered.
func (p *Plugin) Registered() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.registered
}

// Stop ends the plugin as a signal would: its connections break and its socket stays.
func (p *Plugin) Stop() {
	if p.watcher != nil {
		_ = p.watcher.Close()
	}
	p.mu.Lock()
	server, socket := p.server, p.socket
	p.mu.Unlock()
	server.Stop()
	_ = os.Remove(socket)
}

// SetHealth lists a device as healthy or not.
func (p *Plugin) SetHealth(id string, healthy bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.health[id] = healthy
	p.changed.Notify()
}

// Allocated returns the devices of each call of Allocate.
func (p *Plugin) Allocated() [][]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([][]string(nil), p.allocated...)
}

func (p *Plugin) pluginOptions() *pluginapi.DevicePluginOptions {
	return &pluginapi.DevicePluginOptions{PreStartRequired: p.options.PreStart != nil,
		GetPreferredAllocationAvailable: p.options.Preferred != nil}
}

// GetDevicePluginOptions implements the API.
func (p *Plugin) GetDevicePluginOptions(context.Context, *pluginapi.Empty) (*pluginapi.DevicePluginOptions, error) {
	if err := p.options.OptionsFault; err != nil {
		return nil, err
	}
	return p.pluginOptions(), nil
}

// ListAndWatch implements the API.
func (p *Plugin) ListAndWatch(_ *pluginapi.Empty,
	stream grpc.ServerStreamingServer[pluginapi.ListAndWatchResponse]) error {
	changed, unsubscribe := p.changed.Subscribe()
	defer unsubscribe()
	for {
		p.mu.Lock()
		list := &pluginapi.ListAndWatchResponse{}
		for id, healthy := range p.health {
			d := &pluginapi.Device{ID: id, Health: pluginapi.Unhealthy, Topology: p.topology(id)}
			if healthy {
				d.Health = pluginapi.Healthy
			}
			list.Devices = append(list.Devices, d)
		}
		p.mu.Unlock()
		if err := stream.Send(list); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return nil
		}
	}
}

// GetPreferredAllocation implements the API.
func (p *Plugin) GetPreferredAllocation(_ context.Context,
	r *pluginapi.PreferredAllocationRequest) (*pluginapi.PreferredAllocationResponse, error) {
	response := &pluginapi.PreferredAllocationResponse{}
	for _, c := range r.GetContainerRequests() {
		ids := p.options.Preferred(c.GetAvailableDeviceIDs(), c.GetMustIncludeDeviceIDs(), int(c.GetAllocationSize()))
		response.ContainerResponses = append(response.ContainerResponses,
			&pluginapi.ContainerPreferredAllocationResponse{DeviceIDs: ids})
	}
	return response, nil
}

// Allocate implements the API.
func (p *Plugin) Allocate(ctx context.Context, r *pluginapi.AllocateRequest) (*pluginapi.AllocateResponse, error) {
	response := &pluginapi.AllocateResponse{}
	for _, c := range r.GetContainerRequests() {
		p.mu.Lock()
		p.allocated = append(p.allocated, c.GetDevicesIds())
		p.mu.Unlock()
		one := &pluginapi.ContainerAllocateResponse{}
		if p.options.Allocate != nil {
			var err error
			if one, err = p.options.Allocate(ctx, c.GetDevicesIds()); err != nil {
				return nil, err
			}
		}
		response.ContainerResponses = append(response.ContainerResponses, one)
	}
	return response, nil
}

// PreStartContainer implements the API.
func (p *Plugin) PreStartContainer(_ context.Context,
	r *pluginapi.PreStartContainerRequest) (*pluginapi.PreStartContainerResponse, error) {
	if err := p.options.PreStart(r.GetDevicesIds()); err != nil {
		return nil, err
	}
	return &pluginapi.PreStartContainerResponse{}, nil
}

// topology is what the plugin reports of a device, nil for nothing.
func (p *Plugin) topology(id string) *pluginapi.TopologyInfo {
	node, ok := p.options.Nodes[id]
	if !ok {
		return nil
	}
	return &pluginapi.TopologyInfo{Nodes: []*pluginapi.NUMANode{{ID: node}}}
}

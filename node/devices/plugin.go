package devices

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/podstead/podstead/internal/device"
	"github.com/podstead/podstead/node/plugins"
)

// maxResponse limits the responses of plugins, in bytes.
const maxResponse = 16 << 20

// plugin is one connection to a device plugin.
type plugin struct {
	resource v1.ResourceName
	socket   string
	conn     *grpc.ClientConn
	client   pluginapi.DevicePluginClient
	// preStartRequired: PreStartContainer is called before each start of a container. prefers:
	// the plugin is asked which devices to allocate. Both are set before the plugin is used.
	preStartRequired, prefers bool
	// listed: the plugin has listed its devices. devices and nodes are those of its last list, as in
	// deviceResource. Protected by Manager.mu.
	listed  bool
	devices map[string]bool
	nodes   map[string][]int
	// end ends the connection.
	end context.CancelFunc
}

func dialPlugin(name v1.ResourceName, socket string) (*plugin, error) {
	conn, err := plugins.Dial(socket, maxResponse, time.Second)
	if err != nil {
		return nil, err
	}
	return &plugin{resource: name, socket: socket, conn: conn, client: pluginapi.NewDevicePluginClient(conn)}, nil
}

// runPlugin keeps the connection to a plugin that has registered, until the plugin ends it or
// another one replaces it.
func (m *Manager) runPlugin(ctx context.Context, p *plugin) {
	defer p.conn.Close()
	if err := m.watchPlugin(ctx, p); ctx.Err() == nil {
		m.lose(p, "Device plugin disconnected", err)
	}
}

// askOptions asks a plugin that registers for its options, and closes the connection if that fails.
func (p *plugin) askOptions(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	options, err := p.client.GetDevicePluginOptions(ctx, &pluginapi.Empty{}, grpc.WaitForReady(true))
	switch {
	case status.Code(err) == codes.Unimplemented:
		// Those of the registration hold.
		return nil
	case err != nil:
		_ = p.conn.Close()
		return fmt.Errorf("the plugin did not report its options; it must serve %s before it registers: %w", p.socket,
			p.fault(err, timeout))
	}
	p.preStartRequired = p.preStartRequired || options.GetPreStartRequired()
	p.prefers = p.prefers || options.GetGetPreferredAllocationAvailable()
	return nil
}

// watchPlugin takes the lists of devices.
func (m *Manager) watchPlugin(ctx context.Context, p *plugin) error {
	stream, err := p.client.ListAndWatch(ctx, &pluginapi.Empty{})
	if err != nil {
		return fmt.Errorf("ListAndWatch: %w", err)
	}
	for {
		list, err := stream.Recv()
		if err != nil {
			return fmt.Errorf("ListAndWatch: %w", err)
		}
		m.setDevices(p, list.GetDevices())
	}
}

// setDevices takes a list of devices of a plugin.
func (m *Manager) setDevices(p *plugin, list []*pluginapi.Device) {
	devices, nodes := make(map[string]bool, len(list)), map[string][]int{}
	for _, d := range list {
		devices[d.GetID()] = d.GetHealth() == pluginapi.Healthy
		if on := nodesOf(d); on != nil {
			nodes[d.GetID()] = on
		}
	}
	m.mu.Lock()
	first := !p.listed
	p.listed, p.devices, p.nodes = true, devices, nodes
	r := m.resources[p.resource]
	if r == nil || r.plugin != p {
		m.mu.Unlock()
		return
	}
	r.devices, r.nodes = devices, nodes
	m.noteHealth(p.resource)
	healthy := r.healthy()
	m.mu.Unlock()
	m.changed.Notify()
	if first {
		m.log.Info("Device plugin registered", "resource", p.resource, "socket", p.socket, "devices", len(devices), "healthy",
			healthy)
		return
	}
	m.log.Info("Device plugin reports its devices", "resource", p.resource, "devices", len(devices), "healthy", healthy)
}

// preferred asks the plugin which of the available devices to allocate.
func (p *plugin) preferred(ctx context.Context, available, must []string, count int, timeout time.Duration) ([]string,
	error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	response, err := p.client.GetPreferredAllocation(ctx,
		&pluginapi.PreferredAllocationRequest{ContainerRequests: []*pluginapi.ContainerPreferredAllocationRequest{
			{AvailableDeviceIDs: available, MustIncludeDeviceIDs: must, AllocationSize: int32(count)},
		}})
	if err != nil {
		return nil, p.fault(err, timeout)
	}
	if len(response.GetContainerResponses()) == 0 {
		return nil, nil
	}
	return response.GetContainerResponses()[0].GetDeviceIDs(), nil
}

// allocate lets the plugin prepare devices for a container.
func (p *plugin) allocate(ctx context.Context, ids []string, timeout time.Duration) (device.Assignment, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	response, err := p.client.Allocate(ctx,
		&pluginapi.AllocateRequest{ContainerRequests: []*pluginapi.ContainerAllocateRequest{{DevicesIds: ids}}})
	if err != nil {
		return device.Assignment{}, p.fault(err, timeout)
	}
	if n := len(response.GetContainerResponses()); n != 1 {
		return device.Assignment{}, fmt.Errorf("the device plugin at %s answered for %d containers, not for 1", p.socket, n)
	}
	return assignment(response.GetContainerResponses()[0])
}

// prepare lets the plugin prepare the devices of a container that is about to start.
func (p *plugin) prepare(ctx context.Context, ids []string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if _, err := p.client.PreStartContainer(ctx, &pluginapi.PreStartContainerRequest{DevicesIds: ids}); err != nil {
		return p.fault(err, timeout)
	}
	return nil
}

// fault names the plugin, and the deadline if that ended the call.
func (p *plugin) fault(err error, timeout time.Duration) error {
	if status.Code(err) == codes.DeadlineExceeded {
		return fmt.Errorf("the device plugin at %s did not answer within %s", p.socket, timeout)
	}
	return fmt.Errorf("the device plugin at %s failed: %s", p.socket, plain(err))
}

// plain returns the message of an error of a call, without the code.
func plain(err error) string {
	if err == nil {
		return ""
	}
	if inner := errors.Unwrap(err); inner != nil {
		if s, ok := status.FromError(inner); ok {
			return strings.TrimSuffix(err.Error(), inner.Error()) + s.Message()
		}
	}
	return status.Convert(err).Message()
}

// assignment returns a response in podstead's form. A relative path, or a device with other
// permissions than r, w and m, is an error: the runtime would fail with less to say.
func assignment(r *pluginapi.ContainerAllocateResponse) (device.Assignment, error) {
	a := device.Assignment{Env: r.GetEnvs(), Annotations: r.GetAnnotations()}
	for _, m := range r.GetMounts() {
		if !filepath.IsAbs(m.GetHostPath()) || !filepath.IsAbs(m.GetContainerPath()) {
			return device.Assignment{}, fmt.Errorf("the device plugin answered with a mount of %q at %q; both must be "+
				"absolute paths", m.GetHostPath(), m.GetContainerPath())
		}
		a.Mounts = append(a.Mounts, device.Mount{HostPath: m.GetHostPath(), ContainerPath: m.GetContainerPath(),
			ReadOnly: m.GetReadOnly()})
	}
	for _, d := range r.GetDevices() {
		n := device.Node{HostPath: d.GetHostPath(), ContainerPath: d.GetContainerPath(), Permissions: d.GetPermissions()}
		if n.ContainerPath == "" {
			n.ContainerPath = n.HostPath
		}
		if n.Permissions == "" {
			n.Permissions = "rwm"
		}
		if !filepath.IsAbs(n.HostPath) || !filepath.IsAbs(n.ContainerPath) || strings.Trim(n.Permissions, "rwm") != "" {
			return device.Assignment{}, fmt.Errorf("the device plugin answered with the device %q at %q with the permissions "+
				"%q; the paths must be absolute, and the permissions of r, w and m",
				n.HostPath, n.ContainerPath, n.Permissions)
		}
		a.Nodes = append(a.Nodes, n)
	}
	for _, d := range r.GetCdiDevices() {
		if !slices.Contains(a.CDI, d.GetName()) {
			a.CDI = append(a.CDI, d.GetName())
		}
	}
	return a, nil
}

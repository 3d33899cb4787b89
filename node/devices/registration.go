package devices

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/podstead/podstead/internal/device"
	"github.com/podstead/podstead/node/plugins"
)

// registration is the service with which device plugins register.
type registration struct {
	pluginapi.UnimplementedRegistrationServer
	manager *Manager
	// ctx is the context of Run, which ends the connections to plugins.
	ctx context.Context
}

// Register implements the API. As at the kubelet the plugin has reported its options when it returns. It does not
// wait for the devices: the node has them as soon as the plugin has listed them.
func (r registration) Register(ctx context.Context, req *pluginapi.RegisterRequest) (*pluginapi.Empty, error) {
	p, err := r.manager.dial(req)
	if err == nil {
		err = p.askOptions(ctx, r.manager.options.Timeouts.Connect)
	}
	if err == nil {
		err = r.manager.connect(r.ctx, p)
	}
	if err != nil {
		r.manager.log.Warn("Registration of a device plugin rejected", "resource", req.GetResourceName(), "endpoint",
			req.GetEndpoint(), "err", err)
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	return &pluginapi.Empty{}, nil
}

// dial returns the connection to a plugin that registers at the socket of the manager.
func (m *Manager) dial(req *pluginapi.RegisterRequest) (*plugin, error) {
	if err := m.checkPlugin(req.GetResourceName(), req.GetVersion()); err != nil {
		return nil, err
	}
	endpoint := req.GetEndpoint()
	if endpoint == "" || endpoint != filepath.Base(endpoint) || endpoint == SocketName {
		return nil, fmt.Errorf("endpoint %q is not valid; it must be the name of the plugin's socket in %s", endpoint,
			m.options.Dir)
	}
	p, err := dialPlugin(v1.ResourceName(req.GetResourceName()), filepath.Join(m.options.Dir, endpoint))
	if err != nil {
		return nil, err
	}
	p.preStartRequired, p.prefers = req.GetOptions().GetPreStartRequired(),
		req.GetOptions().GetGetPreferredAllocationAvailable()
	return p, nil
}

// checkPlugin checks the resource of a plugin and the versions of the API that it supports.
func (m *Manager) checkPlugin(resource string, versions ...string) error {
	if !slices.ContainsFunc(versions, func(v string) bool { return slices.Contains(pluginapi.SupportedVersions[:], v) }) {
		return fmt.Errorf("version %q of the device plugin API is not supported; use %s", strings.Join(versions, ", "),
			pluginapi.Version)
	}
	name := v1.ResourceName(resource)
	if !device.IsResource(name) {
		return fmt.Errorf("resource name %q is not valid; it must be an extended resource such as example.com/gpu, outside "+
			"of kubernetes.io", name)
	}
	if _, ok := m.options.Local[name]; ok {
		return fmt.Errorf("%s is a resource of local devices; remove it from localDevices in podstead's configuration, or "+
			"give the plugin another resource name", name)
	}
	return nil
}

// watched is a plugin that the plugin watcher has found, for Run, which connects to it.
type watched struct {
	plugin *plugin
	result chan error // capacity 1
}

// Register implements plugins.Handler: it takes a device plugin that the plugin watcher has found.
// The deregistration disconnects it.
func (m *Manager) Register(ctx context.Context, found plugins.Plugin) (deregister func(), err error) {
	if err := m.checkPlugin(found.Name, found.Versions...); err != nil {
		return nil, err
	}
	p, err := dialPlugin(v1.ResourceName(found.Name), found.Endpoint)
	if err != nil {
		return nil, err
	}
	if err := p.askOptions(ctx, m.options.Timeouts.Connect); err != nil {
		return nil, err
	}
	w := watched{plugin: p, result: make(chan error, 1)}
	select {
	case m.watched <- w:
	case <-ctx.Done():
		_ = p.conn.Close()
		return nil, ctx.Err()
	}
	if err := <-w.result; err != nil {
		return nil, err
	}
	return func() { m.disconnect(p) }, nil
}

// disconnect ends the connection to a plugin whose registration socket was removed.
func (m *Manager) disconnect(p *plugin) {
	m.lose(p, "Device plugin deregistered", nil)
	p.end()
}

// lose records that a plugin is gone, which the event describes with its cause, may be nil. An earlier one of its
// resource that is still connected takes its place.
func (m *Manager) lose(p *plugin, event string, cause error) {
	m.mu.Lock()
	used, successor := m.resources[p.resource].remove(p)
	if used {
		m.noteHealth(p.resource)
	}
	m.mu.Unlock()
	if !used {
		return
	}
	m.changed.Notify()
	log := m.log.With("resource", p.resource, "socket", p.socket)
	if cause != nil {
		log = log.With("err", plain(cause))
	}
	if successor != nil {
		log.Warn(event+"; an earlier one of its resource, which is still connected, is used", "used", successor.socket)
		return
	}
	log.Warn(event + "; its devices are not allocated until it registers again")
}

// connect makes a plugin the one of its resource. Earlier ones stay connected, except one at the same socket.
func (m *Manager) connect(ctx context.Context, p *plugin) error {
	ctx, p.end = context.WithCancel(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	if ctx.Err() != nil {
		p.end()
		_ = p.conn.Close()
		return errors.New("podstead is stopping")
	}
	r := m.resources[p.resource]
	if r == nil {
		r = &deviceResource{}
		m.resources[p.resource] = r
		m.saveLater()
	}
	r.add(p)
	m.noteHealth(p.resource)
	m.plugins.Go(func() {
		defer p.end()
		m.runPlugin(ctx, p)
	})
	return nil
}

// newServer returns the server of the registration socket.
func (m *Manager) newServer(ctx context.Context) *grpc.Server {
	server := grpc.NewServer(grpc.MaxRecvMsgSize(1<<20), grpc.MaxConcurrentStreams(16))
	pluginapi.RegisterRegistrationServer(server, registration{manager: m, ctx: ctx})
	return server
}

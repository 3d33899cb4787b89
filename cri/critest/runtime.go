package critest

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// conditions are what Status reports; a message that is not empty is a fault.
type conditions struct {
	runtime, network string
	driver           runtimeapi.CgroupDriver
	hasDriver        bool
	config, cni      string
	name, version    string
	features         *runtimeapi.RuntimeFeatures
	handlers         []*runtimeapi.RuntimeHandler
}

func readyConditions() conditions {
	return conditions{driver: runtimeapi.CgroupDriver_CGROUPFS, hasDriver: true, name: "critest", version: "v1.0.0"}
}

// SetVersion makes the runtime say that it is another one, and what it reports
// that it can do; features may be nil.
func (f *Fake) SetVersion(name, version string, features *runtimeapi.RuntimeFeatures) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.runtime.name, f.runtime.version, f.runtime.features = name, version, features
}

// SetHandlers is what the runtime reports of its handlers.
func (f *Fake) SetHandlers(handlers ...*runtimeapi.RuntimeHandler) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.runtime.handlers = handlers
}

// SetRuntimeReady makes the runtime say that it is ready, with an empty
// message, or why it is not.
func (f *Fake) SetRuntimeReady(message string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.runtime.runtime = message
	f.changed.Notify()
}

// SetNetworkReady is the same for the network. While it is not ready, only
// sandboxes on the host's network start.
func (f *Fake) SetNetworkReady(message string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.runtime.network = message
	f.changed.Notify()
}

// SetConfig is the configuration that a verbose Status shows, as containerd's
// JSON.
func (f *Fake) SetConfig(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.runtime.config = text
}

// SetNetwork is the CNI network that a verbose Status shows, as containerd's JSON.
func (f *Fake) SetNetwork(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.runtime.cni = text
}

// SetCgroupDriver is what RuntimeConfig reports: "systemd", "cgroupfs", or empty
// for a runtime too old to have the call.
func (f *Fake) SetCgroupDriver(driver string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.runtime.hasDriver = driver != ""
	f.runtime.driver = runtimeapi.CgroupDriver_CGROUPFS
	if driver == "systemd" {
		f.runtime.driver = runtimeapi.CgroupDriver_SYSTEMD
	}
}

func (s *runtimeServer) Version(context.Context, *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	f := s.f
	f.mu.Lock()
	defer f.mu.Unlock()
	return &runtimeapi.VersionResponse{Version: "0.1.0", RuntimeName: f.runtime.name, RuntimeVersion: f.runtime.version,
		RuntimeApiVersion: "v1"}, nil
}

func (s *runtimeServer) Status(_ context.Context, r *runtimeapi.StatusRequest) (*runtimeapi.StatusResponse, error) {
	f := s.f
	f.mu.Lock()
	defer f.mu.Unlock()
	condition := func(kind, reason, message string) *runtimeapi.RuntimeCondition {
		if message == "" {
			return &runtimeapi.RuntimeCondition{Type: kind, Status: true}
		}
		return &runtimeapi.RuntimeCondition{Type: kind, Reason: reason, Message: message}
	}
	var info map[string]string
	if r.Verbose && f.runtime.config != "" {
		info = map[string]string{"config": f.runtime.config}
	}
	if r.Verbose && f.runtime.cni != "" {
		info = map[string]string{"config": f.runtime.config, "cniconfig": f.runtime.cni}
	}
	return &runtimeapi.StatusResponse{Info: info, Features: f.runtime.features, RuntimeHandlers: f.runtime.handlers,
		Status: &runtimeapi.RuntimeStatus{Conditions: []*runtimeapi.RuntimeCondition{
			condition(runtimeapi.RuntimeReady, "ContainerdNotReady", f.runtime.runtime),
			condition(runtimeapi.NetworkReady, "NetworkPluginNotReady", f.runtime.network),
		}}}, nil
}

func (s *runtimeServer) RuntimeConfig(context.Context,
	*runtimeapi.RuntimeConfigRequest) (*runtimeapi.RuntimeConfigResponse, error) {
	f := s.f
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.runtime.hasDriver {
		return nil, status.Error(codes.Unimplemented, "method RuntimeConfig not implemented")
	}
	return &runtimeapi.RuntimeConfigResponse{Linux: &runtimeapi.LinuxRuntimeConfiguration{CgroupDriver: f.runtime.driver}},
		nil
}

// ExecSync calls what OnExec gave, without the lock.
func (s *runtimeServer) ExecSync(ctx context.Context, r *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse,
	error) {
	f := s.f
	f.mu.Lock()
	c := f.containers[r.ContainerId]
	if c == nil {
		f.mu.Unlock()
		return nil, noContainer(r.ContainerId)
	}
	if !c.running() {
		f.mu.Unlock()
		return nil, status.Errorf(codes.Unknown, "failed to exec in container: container is in %s state", c.state)
	}
	exec, view := f.script.exec, c.view()
	f.mu.Unlock()
	if exec == nil {
		return &runtimeapi.ExecSyncResponse{}, nil
	}
	return exec(ctx, view, r)
}

func (s *runtimeServer) ReopenContainerLog(_ context.Context,
	r *runtimeapi.ReopenContainerLogRequest) (*runtimeapi.ReopenContainerLogResponse, error) {
	f := s.f
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.containers[r.ContainerId]
	if c == nil {
		return nil, noContainer(r.ContainerId)
	}
	if !c.running() {
		return nil, status.Error(codes.Unknown, "container is not running")
	}
	if err := f.script.openLog(c); err != nil {
		return nil, status.Error(codes.Unknown, err.Error())
	}
	return &runtimeapi.ReopenContainerLogResponse{}, nil
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	register "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// driver is the driver. It keeps nothing in memory: its mounts outlive it.
type driver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedNodeServer
	csi.UnimplementedControllerServer
	register.UnimplementedRegistrationServer
	name, dir, endpoint string

	mu sync.Mutex
}

// call is a line of calls.jsonl.
type call struct {
	Method  string `json:"method"`
	Request any    `json:"request"`
}

// intercept records a call, and fails or hangs as the test reports.
func (d *driver) intercept(ctx context.Context, request any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any,
	error) {
	method := path.Base(info.FullMethod)
	if err := d.record(call{Method: method, Request: request}); err != nil {
		return nil, err
	}
	for {
		if _, err := os.Stat(filepath.Join(d.dir, "hang", method)); errors.Is(err, fs.ErrNotExist) {
			break
		}
		select {
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
	if text, err := os.ReadFile(filepath.Join(d.dir, "fail", method)); err == nil {
		name, message, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
		var code codes.Code
		if err := code.UnmarshalJSON([]byte(`"` + name + `"`)); err != nil {
			return nil, err
		}
		return nil, status.Error(code, message)
	}
	if _, err := os.Stat(filepath.Join(d.dir, "leave", method)); err == nil {
		switch method {
		case "NodeUnpublishVolume":
			return &csi.NodeUnpublishVolumeResponse{}, nil
		case "NodeUnstageVolume":
			return &csi.NodeUnstageVolumeResponse{}, nil
		}
	}
	return next(ctx, request)
}

func (d *driver) record(c call) error {
	data, err := json.Marshal(c)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	f, err := os.OpenFile(filepath.Join(d.dir, "calls.jsonl"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(append(data, '\n'))
	return errors.Join(err, f.Close())
}

// GetPluginInfo implements the service Identity.
func (d *driver) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: d.name, VendorVersion: "1"}, nil
}

// NodeGetInfo implements the service Node.
func (d *driver) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: "test-node"}, nil
}

// NodeGetCapabilities implements the service Node.
func (d *driver) NodeGetCapabilities(context.Context,
	*csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	response := &csi.NodeGetCapabilitiesResponse{}
	for _, c := range []csi.NodeServiceCapability_RPC_Type{
		csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME, csi.NodeServiceCapability_RPC_GET_VOLUME_STATS,
		csi.NodeServiceCapability_RPC_EXPAND_VOLUME, csi.NodeServiceCapability_RPC_VOLUME_CONDITION,
		csi.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER, csi.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP,
	} {
		if _, err := os.Stat(filepath.Join(d.dir, "without", c.String())); err == nil {
			continue
		}
		response.Capabilities = append(response.Capabilities, &csi.NodeServiceCapability{
			Type: &csi.NodeServiceCapability_Rpc{Rpc: &csi.NodeServiceCapability_RPC{Type: c}},
		})
	}
	return response, nil
}

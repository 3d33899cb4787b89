package dra

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"
	drapb "k8s.io/kubelet/pkg/apis/dra/v1"

	"github.com/podstead/podstead/node/plugins"
)

// services are the versions of the API that drivers may serve, the best one first. The messages of
// v1beta1 are those of v1 without a field.
var services = []struct{ version, path string }{
	{drapb.DRAPluginService, "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/"},
	{"v1beta1.DRAPlugin", "/k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin/"},
}

// maxResponse limits the responses of drivers, in bytes.
const maxResponse = 4 << 20

// maxReconnectDelay is between two attempts to reach a driver that has died and left its socket, as at the kubelet.
// A call ends the delay.
const maxReconnectDelay = 2 * time.Minute

// driver is one registration of a DRA driver.
type driver struct {
	name, socket string
	// path begins the names of the calls.
	path string
	conn *grpc.ClientConn
	// connected is protected by Manager.mu.
	connected bool
}

func newDriver(p plugins.Plugin) (*driver, error) {
	d := &driver{name: p.Name, socket: p.Endpoint}
	for _, s := range services {
		if slices.Contains(p.Versions, s.version) {
			d.path = s.path
			break
		}
	}
	if d.path == "" {
		return nil, fmt.Errorf("the services %q of the DRA driver are not supported; use %s", strings.Join(p.Versions, ", "),
			drapb.DRAPluginService)
	}
	var err error
	d.conn, err = plugins.Dial(p.Endpoint, maxResponse, maxReconnectDelay)
	return d, err
}

// prepare lets the driver prepare a claim.
func (d *driver) prepare(ctx context.Context, c *drapb.Claim, timeout time.Duration) ([]device, error) {
	response := &drapb.NodePrepareResourcesResponse{}
	if err := d.call(ctx, "NodePrepareResources", &drapb.NodePrepareResourcesRequest{Claims: []*drapb.Claim{c}}, response,
		timeout); err != nil {
		return nil, err
	}
	result, ok := response.GetClaims()[c.GetUid()]
	switch {
	case !ok:
		return nil, fmt.Errorf("the DRA driver %s did not answer for ResourceClaim %s in NodePrepareResources", d.name,
			c.GetName())
	case result.GetError() != "":
		return nil, fmt.Errorf("the DRA driver %s failed to prepare ResourceClaim %s: %s", d.name, c.GetName(),
			result.GetError())
	}
	var devices []device
	for _, r := range result.GetDevices() {
		devices = append(devices, device{
			Driver: d.name, Pool: r.GetPoolName(), Device: r.GetDeviceName(), Share: r.GetShareId(),
			Requests: r.GetRequestNames(), CDI: r.GetCdiDeviceIds(),
		})
	}
	return devices, nil
}

// unprepare lets the driver undo prepare.
func (d *driver) unprepare(ctx context.Context, c *drapb.Claim, timeout time.Duration) error {
	response := &drapb.NodeUnprepareResourcesResponse{}
	if err := d.call(ctx, "NodeUnprepareResources", &drapb.NodeUnprepareResourcesRequest{Claims: []*drapb.Claim{c}},
		response, timeout); err != nil {
		return err
	}
	result, ok := response.GetClaims()[c.GetUid()]
	switch {
	case !ok:
		return fmt.Errorf("the DRA driver %s did not answer for ResourceClaim %s in NodeUnprepareResources", d.name,
			c.GetName())
	case result.GetError() != "":
		return fmt.Errorf("the DRA driver %s failed to unprepare ResourceClaim %s: %s", d.name, c.GetName(),
			result.GetError())
	}
	return nil
}

func (d *driver) call(ctx context.Context, name string, request, response any, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if d.conn.GetState() == connectivity.TransientFailure {
		// The call fails without an attempt to connect. The pod is synced again once there is a connection.
		d.conn.ResetConnectBackoff()
	}
	err := d.conn.Invoke(ctx, d.path+name, request, response)
	switch {
	case err == nil:
		return nil
	case status.Code(err) == codes.DeadlineExceeded:
		return fmt.Errorf("the DRA driver %s at %s did not answer to %s within %s", d.name, d.socket, name, timeout)
	}
	return fmt.Errorf("%s of the DRA driver %s at %s failed: %s", name, d.name, d.socket, status.Convert(err).Message())
}

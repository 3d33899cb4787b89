package csi

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podstead/podstead/internal/csivolume"
	"github.com/podstead/podstead/node/plugins"
)

// maxResponse limits the responses of drivers, in bytes.
const maxResponse = 1 << 20

// driver is a driver that has registered.
type driver struct {
	name, socket string
	conn         *grpc.ClientConn
	timeout      time.Duration
	capabilities map[capabilityType]bool
	// info is what the driver knows of this node.
	info *infoResponse
}

// connect connects to a driver, and asks for its node ID and its capabilities.
func connect(ctx context.Context, p plugins.Plugin, timeout time.Duration) (*driver, error) {
	conn, err := plugins.Dial(p.Endpoint, maxResponse, time.Second)
	if err != nil {
		return nil, err
	}
	d := &driver{name: p.Name, socket: p.Endpoint, conn: conn, timeout: timeout}
	var info infoResponse
	var response capabilitiesResponse
	// A registrar may register before the driver serves.
	err = d.call(ctx, "NodeGetInfo", &empty{}, &info, grpc.WaitForReady(true))
	if err == nil && info.nodeID == "" {
		err = fmt.Errorf("CSI driver %s: NodeGetInfo returned no node_id", p.Name)
	}
	if err == nil {
		err = d.call(ctx, "NodeGetCapabilities", &empty{}, &response)
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	d.capabilities, d.info = response.capabilities, &info
	return d, nil
}

// call calls a method of the driver's service Node.
func (d *driver) call(ctx context.Context, method string, in, out message, options ...grpc.CallOption) error {
	limited, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	err := d.conn.Invoke(limited, "/csi.v1.Node/"+method, in, out, append(options, grpc.ForceCodec(codec{}))...)
	if err == nil {
		return nil
	}
	return &callError{driver: d, method: method, code: status.Code(err), message: status.Convert(err).Message(),
		cancelled: ctx.Err()}
}

// callError is a call that failed.
type callError struct {
	driver          *driver
	method, message string
	code            codes.Code
	// cancelled is the error of the caller's context.
	cancelled error
}

func (e *callError) Error() string {
	switch {
	case e.cancelled != nil:
		return fmt.Sprintf("CSI driver %s: %s was interrupted", e.driver.name, e.method)
	case e.code == codes.DeadlineExceeded:
		return fmt.Sprintf("CSI driver %s did not answer %s within %s; look at its pod's log, and restart the pod",
			e.driver.name, e.method, e.driver.timeout)
	case e.code == codes.Unavailable:
		return fmt.Sprintf("CSI driver %s is unreachable at %s: %s; check whether its pod runs", e.driver.name,
			e.driver.socket, e.message)
	}
	return fmt.Sprintf("CSI driver %s: %s failed: %s: %s; look at its pod's log", e.driver.name, e.method, e.code,
		e.message)
}

func (e *callError) Unwrap() error { return e.cancelled }

// Is reports whether the call is an expansion that never succeeds, by the codes that the API of drivers has for that.
func (e *callError) Is(target error) bool {
	if target != csivolume.ErrInfeasible || e.cancelled != nil || e.method != methodExpand {
		return false
	}
	return e.code == codes.InvalidArgument || e.code == codes.OutOfRange || e.code == codes.NotFound
}

// isNotFound reports whether the driver does not know the volume.
func isNotFound(err error) bool { return hasCode(err, codes.NotFound) }

// isUnreachable reports whether the driver does not serve: its pod may have left the socket when it ended.
func isUnreachable(err error) bool { return hasCode(err, codes.Unavailable) }

func hasCode(err error, code codes.Code) bool {
	e, ok := err.(*callError)
	return ok && e.cancelled == nil && e.code == code
}

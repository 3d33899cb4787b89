package probe

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// probeGRPC calls the service grpc.health.v1.Health, without TLS as the kubelet.
func (a *actions) probeGRPC(ctx context.Context, q probeRequest) (probeResult, error) {
	address, err := q.address("", intstr.FromInt32(q.probe.GRPC.Port))
	if err != nil {
		return probeResult{}, err
	}
	conn, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUserAgent(a.agent), grpc.WithNoProxy(), grpc.WithDisableServiceConfig(),
		grpc.WithContextDialer(dialTCP),
		grpc.WithMaxHeaderListSize(maxHeaders), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxHealth)))
	if err != nil {
		return probeResult{}, err
	}
	defer conn.Close()
	service := ""
	if q.probe.GRPC.Service != nil {
		service = *q.probe.GRPC.Service
	}
	health, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: service})
	switch status.Code(err) {
	case codes.OK:
		if s := health.GetStatus(); s != grpc_health_v1.HealthCheckResponse_SERVING {
			return failedResult(fmt.Sprintf("service %q of %s is not healthy (responded with %q)", service, address, s)), nil
		}
		return probeResult{ok: true}, nil
	case codes.Unimplemented:
		return failedResult(address + " does not implement the grpc health protocol (grpc.health.v1.Health)"), nil
	case codes.DeadlineExceeded:
		return failedResult(fmt.Sprintf("timeout: %s did not answer within %s", address, q.timeout)), nil
	}
	return failedResult(fmt.Sprintf("health check of %s failed: %s", address, status.Convert(err).Message())), nil
}

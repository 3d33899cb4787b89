package probe

import (
	"context"
	"net"
)

// probeTCP succeeds if the connection is accepted.
func probeTCP(ctx context.Context, q probeRequest) (probeResult, error) {
	address, err := q.address(q.probe.TCPSocket.Host, q.probe.TCPSocket.Port)
	if err != nil {
		return probeResult{}, err
	}
	conn, err := dialTCP(ctx, address)
	if err != nil {
		return failedResult(err.Error()), nil
	}
	_ = conn.Close()
	return probeResult{ok: true}, nil
}

func dialTCP(ctx context.Context, address string) (net.Conn, error) {
	return dialer().DialContext(ctx, "tcp", address)
}

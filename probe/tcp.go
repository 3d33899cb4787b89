package probe

import (
	"context"
	"net"
)

// askTCP connects. It succeeds if somebody accepts.
func askTCP(ctx context.Context, q question) (answer, error) {
	address, err := q.address(q.probe.TCPSocket.Host, q.probe.TCPSocket.Port)
	if err != nil {
		return answer{}, err
	}
	conn, err := dialTCP(ctx, address)
	if err != nil {
		return failed(err.Error()), nil
	}
	_ = conn.Close()
	return answer{ok: true}, nil
}

func dialTCP(ctx context.Context, address string) (net.Conn, error) {
	return dialer().DialContext(ctx, "tcp", address)
}

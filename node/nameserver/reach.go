package nameserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/miekg/dns"

	"github.com/podstead/podstead/internal/netns"
)

const (
	reachAttempts = 3
	reachTimeout  = time.Second
)

// ErrNamespace means that the network namespace of a pod could not be entered: it is not known
// whether the pod reaches the name server.
var ErrNamespace = errors.New("cannot enter the pod's network namespace")

// Reach sends a query from a network namespace, such as /proc/PID/ns/net, and returns nil if it is
// answered. An error that is not ErrNamespace means that packets of pods do not arrive.
func Reach(ctx context.Context, namespace string, server netip.AddrPort, domain string) error {
	var conn *net.UDPConn
	var err error
	if entering := netns.Do(namespace, func() {
		conn, err = net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(server))
	}); entering != nil {
		return fmt.Errorf("%w: %w", ErrNamespace, entering)
	}
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	for range reachAttempts {
		if err = askVersion(conn, domain); err == nil || ctx.Err() != nil {
			break
		}
	}
	return errors.Join(err, ctx.Err())
}

func askVersion(conn *net.UDPConn, domain string) error {
	query := new(dns.Msg).SetQuestion("dns-version."+dns.Fqdn(domain), dns.TypeTXT)
	packet, err := query.Pack()
	if err != nil {
		return err
	}
	if err := conn.SetDeadline(time.Now().Add(reachTimeout)); err != nil {
		return err
	}
	if _, err := conn.Write(packet); err != nil {
		return err
	}
	buffer := make([]byte, maxQuery)
	size, err := conn.Read(buffer)
	if err != nil {
		return fmt.Errorf("a query from a pod is not answered: %w", err)
	}
	var reply dns.Msg
	if err := reply.Unpack(buffer[:size]); err != nil || reply.Id != query.Id {
		return errors.New("a query from a pod is answered by something else")
	}
	if len(reply.Answer) == 0 {
		return errors.New("a query from a pod is answered by another name server")
	}
	return nil
}

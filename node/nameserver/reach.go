package nameserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"
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
	type dialed struct {
		conn *net.UDPConn
		err  error
	}
	result := make(chan dialed, 1)
	go func() {
		// The thread stays in the other namespace. It is never unlocked, so that it ends with this
		// goroutine.
		runtime.LockOSThread()
		conn, err := dialIn(namespace, server)
		result <- dialed{conn, err}
	}()
	d := <-result
	if d.err != nil {
		return d.err
	}
	defer d.conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = d.conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	var err error
	for range reachAttempts {
		if err = askVersion(d.conn, domain); err == nil || ctx.Err() != nil {
			break
		}
	}
	return errors.Join(err, ctx.Err())
}

func dialIn(namespace string, server netip.AddrPort) (*net.UDPConn, error) {
	file, err := os.Open(namespace)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNamespace, err)
	}
	defer file.Close()
	if err := unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNamespace, err)
	}
	return net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(server))
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

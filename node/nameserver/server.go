package nameserver

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/miekg/dns"

	"github.com/podstead/podstead/internal/wakeup"
)

// Server answers the queries of pods. Run owns its goroutines.
type Server struct {
	dir Directory
	log *slog.Logger
	// names is replaced as a whole; nil until the first snapshot was read.
	names   atomic.Pointer[names]
	forward *forwarder
	stats   stats
	// forwards are the queries over UDP that wait for another server, conns the TCP connections.
	forwards, conns *limiter
	progress        progress

	listeners listeners
	// statusChanged notifies the connections of the control socket.
	statusChanged wakeup.Broadcast
}

// New creates a server for a directory, in which the daemon writes the snapshot.
func New(dir Directory, log *slog.Logger) *Server {
	s := &Server{dir: dir, log: log}
	s.forwards = newLimiter(maxForwards, maxForwardsPerClient, &s.stats.rejected)
	s.forward = newForwarder(newLimiter(maxLarge, maxLargePerClient, &s.stats.rejected))
	s.conns = newLimiter(maxConns, maxConnsPerClient, &s.stats.rejected)
	s.listeners = listeners{open: map[netip.Addr]*listener{}, failed: map[netip.Addr]string{}}
	return s
}

// receiveUDP answers one packet of a socket. What needs no other server is answered here, so that a flood of queries
// costs one goroutine.
func (s *Server) receiveUDP(ctx context.Context, conn *net.UDPConn, buffer []byte, own netip.Addr) error {
	size, from, err := conn.ReadFromUDPAddrPort(buffer)
	if err == nil {
		s.answerUDP(ctx, conn, buffer[:size], from, own)
	}
	return err
}

func (s *Server) answerUDP(ctx context.Context, conn *net.UDPConn, packet []byte, from netip.AddrPort, own netip.Addr) {
	client := from.Addr().Unmap()
	n := s.names.Load()
	if n == nil || !n.allows(client, own) {
		s.stats.foreign.Add(1)
		return
	}
	send := func(r *request, reply *dns.Msg) {
		if packet, err := pack(r, reply); err == nil {
			_, _ = conn.WriteToUDPAddrPort(packet, from) // the client asks again
		}
	}
	r, reply := parse(packet, client, false)
	switch {
	case r == nil && reply == nil:
		return
	case r == nil:
		send(nil, reply)
		return
	}
	s.stats.queries.Add(1)
	if reply := s.local(r, n); reply != nil {
		send(r, reply)
		return
	}
	r.counted = n.counted(client, own)
	if !s.forwards.acquire(r.counted) {
		send(r, truncated(r.query))
		return
	}
	s.stats.forwarded.Add(1)
	s.progress.begin()
	go func() {
		defer s.progress.end()
		defer s.forwards.release(r.counted)
		send(r, s.remote(ctx, r, n))
	}()
}

// truncated returns the reply to a query beyond a limit: the client asks again over TCP. Who sends packets with the
// address of another pod uses up what that one may have over UDP, but cannot open a connection in its place.
func truncated(query *dns.Msg) *dns.Msg {
	reply := new(dns.Msg).SetReply(query)
	reply.Truncated, reply.RecursionAvailable = true, true
	return reply
}

// pack returns the packet of a reply; r is nil for a reply to what is no valid query.
func pack(r *request, reply *dns.Msg) ([]byte, error) {
	if r == nil {
		return reply.Pack()
	}
	return r.pack(reply)
}

// Run serves until ctx ends. It reads the snapshot first, and again whenever it was replaced.
func (s *Server) Run(ctx context.Context) error {
	if err := s.dir.Create(); err != nil {
		return err
	}
	inherited, err := inheritSockets()
	if err != nil {
		s.log.Warn("Failed to take over sockets of the previous program", "err", err)
	}
	s.listeners.inherited = inherited
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var tasks sync.WaitGroup
	defer tasks.Wait()
	fail := make(chan error, 2)
	for _, task := range []func(context.Context) error{s.watchSnapshot, s.serveControl} {
		tasks.Go(func() { fail <- task(ctx) })
	}
	select {
	case err = <-fail:
	case <-ctx.Done():
	}
	cancel()
	s.listeners.closeAll()
	return err
}

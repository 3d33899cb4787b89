package nameserver

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/miekg/dns"
)

const (
	// tcpIdle is how long a connection may be without a complete query.
	tcpIdle = 10 * time.Second
	// tcpWrite limits how long a client may take to read a reply.
	tcpWrite = 5 * time.Second
	// maxConnQueries is how many queries a connection may send.
	maxConnQueries = 1000
)

// acceptTCP accepts one connection of a listener, and answers it in a goroutine of its own.
func (s *Server) acceptTCP(ctx context.Context, l *net.TCPListener, own netip.Addr) error {
	conn, err := l.AcceptTCP()
	if err != nil {
		return err
	}
	client := conn.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
	n := s.names.Load()
	if n == nil || !n.allows(client, own) {
		s.stats.foreign.Add(1)
		_ = conn.Close()
		return nil
	}
	counted := n.counted(client, own)
	if !s.conns.acquire(counted) {
		_ = conn.Close()
		return nil
	}
	go func() {
		defer s.conns.release(counted)
		defer conn.Close()
		stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
		defer stop()
		for range maxConnQueries {
			if !s.answerTCP(ctx, conn, client, counted) {
				return
			}
		}
	}()
	return nil
}

// answerTCP answers one query of a connection, and reports whether another one may follow.
func (s *Server) answerTCP(ctx context.Context, conn net.Conn, client, counted netip.Addr) bool {
	_ = conn.SetReadDeadline(time.Now().Add(tcpIdle))
	var length [2]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		return false
	}
	size := binary.BigEndian.Uint16(length[:])
	if size > maxQuery {
		return false
	}
	packet := make([]byte, size)
	if _, err := io.ReadFull(conn, packet); err != nil {
		return false
	}
	s.progress.begin()
	defer s.progress.end()
	r, reply := parse(packet, client, true)
	if r != nil {
		r.counted = counted
		reply = s.replyTCP(ctx, r)
	}
	if reply == nil {
		return false
	}
	out, err := pack(r, reply)
	if err != nil || len(out) > dns.MaxMsgSize {
		return false
	}
	_ = conn.SetWriteDeadline(time.Now().Add(tcpWrite))
	_, err = conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(out))), out...))
	return err == nil
}

func (s *Server) replyTCP(ctx context.Context, r *request) *dns.Msg {
	n := s.names.Load()
	s.stats.queries.Add(1)
	if reply := s.local(r, n); reply != nil {
		return reply
	}
	s.stats.forwarded.Add(1)
	return s.remote(ctx, r, n)
}

package nameserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"
)

// listening opens the server's sockets at a free port of 127.0.0.1, and returns the port.
func listening(t *testing.T, s *Server) uint16 {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := uint16(free.Addr().(*net.TCPAddr).Port)
	_ = free.Close()
	n := newNames(snapshot())
	n.ResolvConf = filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(n.ResolvConf, []byte("nameserver 192.0.2.1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.names.Store(n)
	ctx, cancel := context.WithCancel(t.Context())
	s.listen(ctx, []netip.Addr{netip.MustParseAddr("127.0.0.1")}, port)
	if open, failed := s.listeners.state(); len(open) != 1 {
		t.Fatalf("it does not listen: %v", failed)
	}
	t.Cleanup(func() {
		cancel()
		s.listeners.closeAll()
	})
	return port
}

// askAll sends queries, each for another name that other servers know, until ctx ends, and reports those without a
// response.
func askAll(ctx context.Context, t *testing.T, client int, port uint16) (answered int) {
	conn, err := net.Dial("udp", netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port).String())
	if err != nil {
		t.Error(err)
		return 0
	}
	defer conn.Close()
	over := dns.Conn{Conn: conn}
	for ctx.Err() == nil {
		query := question(fmt.Sprintf("%d.%d.example", answered, client), dns.TypeA)
		_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
		if err := over.WriteMsg(query); err != nil {
			t.Error(err)
			return answered
		}
		response, err := over.ReadMsg()
		if err != nil || response.Id != query.Id || len(response.Answer) != 1 {
			t.Errorf("%s: %v (%v)", query.Question[0].Name, response, err)
			return answered
		}
		answered++
	}
	return answered
}

// The program is replaced while pods ask. Here each replacement fails, so that the server has to go on; none of the
// queries is lost.
func TestReplaceDuringQueries(t *testing.T) {
	s := newServer(func(_ context.Context, _, _ string, q *dns.Msg) (*dns.Msg, error) { return reply(q, 0), nil })
	port := listening(t, s)
	ctx, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	for client := range 4 {
		clients.Go(func() {
			if askAll(ctx, t, client, port) == 0 {
				t.Errorf("client %d had no response", client)
			}
		})
	}
	for range 5000 {
		if err := s.replace(t.Context(), []string{"/missing"}); !errors.Is(err, unix.ENOENT) {
			t.Errorf("replaced by a missing program: %v", err)
		}
	}
	stop()
	clients.Wait()
}

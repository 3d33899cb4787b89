package nameserver

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// bridge is the address at which pods of a network ask. The sockets of the tests are at 127.0.0.1, and their clients,
// which have addresses in the same network, are treated like pods.
var bridge = netip.MustParseAddr("10.88.0.1")

// serving serves pods with addresses in 127.0.1.0/24 and returns the address. Names in "slow" have no response before
// the test ends; those with a label "large" have one that is too large for a packet.
func serving(t *testing.T) (*Server, string) {
	t.Helper()
	s := newServer(func(ctx context.Context, network, _ string, q *dns.Msg) (*dns.Msg, error) {
		if strings.Contains(q.Question[0].Name, ".large.") && network == "udp" {
			return truncated(q), nil
		}
		if strings.HasSuffix(q.Question[0].Name, ".slow.") {
			select {
			case <-ctx.Done():
			case <-t.Context().Done():
			}
			return nil, context.Canceled
		}
		return reply(q, 0), nil
	})
	with := snapshot()
	with.Clients = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	with.ResolvConf = filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(with.ResolvConf, []byte("nameserver 192.0.2.1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		with.Zone.Namespaces[podAddress(i)] = "default"
	}
	s.names.Store(newNames(with))
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	udp, err := net.ListenPacket("udp", tcp.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	opened := &listener{udp.(*net.UDPConn), tcp.(*net.TCPListener)}
	ctx, cancel := context.WithCancel(t.Context())
	s.serve(ctx, opened, bridge)
	t.Cleanup(func() {
		cancel()
		opened.close()
		s.listeners.served.Wait()
	})
	return s, tcp.Addr().String()
}

func podAddress(i int) netip.Addr { return netip.AddrFrom4([4]byte{127, 0, 1, byte(i)}) }

// dial connects from an address.
func dial(t *testing.T, network string, from netip.Addr, server string) net.Conn {
	t.Helper()
	var local net.Addr = &net.UDPAddr{IP: from.AsSlice()}
	if network == "tcp" {
		local = &net.TCPAddr{IP: from.AsSlice()}
	}
	conn, err := (&net.Dialer{LocalAddr: local}).DialContext(t.Context(), network, server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// flood sends slow queries from an address, and returns when the server has received them.
func flood(t *testing.T, s *Server, from netip.Addr, server string, queries int, labels ...string) {
	t.Helper()
	conn := dial(t, "udp", from, server)
	for i := range queries {
		before := s.stats.queries.Load()
		labels := append([]string{fmt.Sprint(i), strings.ReplaceAll(from.String(), ".", "-")}, labels...)
		query := question(strings.Join(labels, ".")+".slow", dns.TypeA)
		if _, err := conn.Write(pack1(t, query)); err != nil {
			t.Fatal(err)
		}
		for s.stats.queries.Load() == before {
			time.Sleep(10 * time.Microsecond)
		}
	}
}

// ask returns the response to a query from an address, as text. Like a resolver, it asks over TCP after a truncated
// one.
func ask(t *testing.T, from netip.Addr, server, name string) string {
	t.Helper()
	for _, network := range []string{"udp", "tcp"} {
		conn := dial(t, network, from, server)
		_ = conn.SetDeadline(time.Now().Add(time.Second))
		over := &dns.Conn{Conn: conn}
		if err := over.WriteMsg(question(name, dns.TypeA)); err != nil {
			return err.Error()
		}
		response, err := over.ReadMsg()
		if err != nil {
			return err.Error()
		}
		if !response.Truncated {
			return network + " " + text(response)
		}
	}
	return "truncated"
}

// Whatever some pods send, also with the addresses of others, another pod has its responses.
func TestFloodsLeaveOthersTheirResponses(t *testing.T) {
	const udp, tcp = "udp NOERROR, A 192.0.2.1", "tcp NOERROR, A 192.0.2.1"
	victim := podAddress(99)
	for name, c := range map[string]struct {
		attack func(t *testing.T, s *Server, server string)
		want   string
	}{
		"large responses of 8 pods": {func(t *testing.T, s *Server, server string) {
			for i := range 8 {
				flood(t, s, podAddress(i), server, 70, "large")
			}
		}, udp},
		"one pod": {func(t *testing.T, s *Server, server string) { flood(t, s, podAddress(0), server, 300) }, udp},
		"40 pods": {func(t *testing.T, s *Server, server string) {
			for i := range 40 {
				flood(t, s, podAddress(i), server, 70)
			}
		}, udp},
		"the addresses of no pod": {func(t *testing.T, s *Server, server string) {
			for i := range 250 {
				flood(t, s, netip.AddrFrom4([4]byte{127, 0, 2, byte(i)}), server, 4)
			}
		}, udp},
		"the addresses of all pods": {func(t *testing.T, s *Server, server string) {
			for i := range 100 {
				flood(t, s, podAddress(i), server, 20)
			}
		}, tcp},
		"connections of 20 pods": {func(t *testing.T, s *Server, server string) {
			for i := range 20 {
				for range 16 {
					dial(t, "tcp", podAddress(i), server)
				}
			}
			flood(t, s, victim, server, 300)
		}, tcp},
	} {
		t.Run(name, func(t *testing.T) {
			s, server := serving(t)
			c.attack(t, s, server)
			if got := ask(t, victim, server, "far.large.example"); got != c.want {
				t.Errorf("another pod gets %s, want %s", got, c.want)
			}
			if s.stats.rejected.Load() == 0 {
				t.Error("nothing was rejected")
			}
		})
	}
}

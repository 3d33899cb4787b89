package nameserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"github.com/podstead/podstead/node/nameserver/zone"
)

var (
	client = netip.MustParseAddr("10.88.0.7")
	db     = netip.MustParseAddr("10.88.0.2")
)

// snapshot is that of two pods and a Service.
func snapshot() *Snapshot {
	six := netip.MustParseAddr("fd00::2")
	return &Snapshot{
		Version: SnapshotVersion, Domain: defaultDomain, Listen: []netip.Addr{netip.MustParseAddr("10.88.0.1")}, Port: 53,
		Clients: []netip.Prefix{netip.MustParsePrefix("10.88.0.0/16"), netip.MustParsePrefix("fd00::/64")},
		Zone: zone.Zone{
			Names: map[string]zone.Records{
				"db.shop.svc.cluster.local":            {Addresses: []netip.Addr{db, six}},
				"new.shop.svc.cluster.local":           {},
				"db.default.svc.cluster.local":         {Addresses: []netip.Addr{netip.MustParseAddr("10.88.0.9")}},
				"sql.shop.svc.cluster.local":           {Addresses: []netip.Addr{db}},
				"10-88-0-2.sql.shop.svc.cluster.local": {Addresses: []netip.Addr{db}},
				"_sql._tcp.sql.shop.svc.cluster.local": {
					Ports: []zone.Port{{Target: "10-88-0-2.sql.shop.svc.cluster.local", Port: 5432}}},
				"far.shop.svc.cluster.local":    {Alias: "far.example"},
				"example.com.svc.cluster.local": {Addresses: []netip.Addr{db}},
			},
			Reverse:    map[netip.Addr][]string{db: {"db.shop.svc.cluster.local"}},
			Namespaces: map[netip.Addr]string{client: "shop"},
		},
	}
}

// newServer returns a server with the snapshot whose queries go to exchange.
func newServer(e exchange) *Server {
	s := New("", slog.New(slog.DiscardHandler))
	s.names.Store(newNames(snapshot()))
	if e != nil {
		s.forward.exchange = e
	}
	return s
}

func question(name string, kind uint16) *dns.Msg {
	return new(dns.Msg).SetQuestion(dns.Fqdn(name), kind)
}

// text returns the code of a reply and its answers, sorted, without their TTL.
func text(reply *dns.Msg) string {
	if reply == nil {
		return "forwarded"
	}
	all := []string{dns.RcodeToString[reply.Rcode]}
	for _, rr := range reply.Answer {
		fields := strings.Fields(rr.String())
		all = append(all, strings.Join(fields[3:], " "))
	}
	slices.Sort(all[1:])
	return strings.Join(all, ", ")
}

func TestAnswers(t *testing.T) {
	n := newNames(snapshot())
	for _, c := range []struct {
		name string
		kind uint16
		want string
	}{
		{"db", dns.TypeA, "NOERROR, A 10.88.0.2"}, // of the client's namespace
		{"DB", dns.TypeAAAA, "NOERROR, AAAA fd00::2"},
		{"db.default.svc.cluster.local", dns.TypeA, "NOERROR, A 10.88.0.9"},
		// The search list of resolv.conf leads from POD.NAMESPACE to the full name.
		{"DB.Shop", dns.TypeA, "forwarded"}, {"db.default", dns.TypeA, "forwarded"},
		{"example.com.svc.cluster.local", dns.TypeA, "NOERROR, A 10.88.0.2"},
		{"db.shop.svc.cluster.local", dns.TypeANY, "NOERROR, A 10.88.0.2, AAAA fd00::2"},
		{"db.shop.svc.cluster.local", dns.TypeMX, "NOERROR"},
		{"new.shop.svc.cluster.local", dns.TypeA, "NOERROR"},
		{"none.shop.svc.cluster.local", dns.TypeA, "NXDOMAIN"},
		{"shop.svc.cluster.local", dns.TypeA, "NOERROR"},
		{"other.svc.cluster.local", dns.TypeA, "NXDOMAIN"},
		{"api.example.com.cluster.local", dns.TypeA, "NXDOMAIN"},
		{"_sql._tcp.sql.shop.svc.cluster.local", dns.TypeSRV,
			"NOERROR, SRV 0 100 5432 10-88-0-2.sql.shop.svc.cluster.local."},
		{"_sql._tcp.sql.shop.svc.cluster.local", dns.TypeA, "NOERROR"},
		{"far.shop.svc.cluster.local", dns.TypeCNAME, "NOERROR, CNAME far.example."},
		{"dns-version.cluster.local", dns.TypeTXT, `NOERROR, TXT "1.1.0"`},
		{"localhost", dns.TypeA, "NOERROR, A 127.0.0.1"},
		{"2.0.88.10.in-addr.arpa", dns.TypePTR, "NOERROR, PTR db.shop.svc.cluster.local."},
		{"3.0.88.10.in-addr.arpa", dns.TypePTR, "NXDOMAIN"},
		{"1.2.0.192.in-addr.arpa", dns.TypePTR, "forwarded"},
		{"9." + strings.Repeat("0.", 15) + "0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.f.ip6.arpa", dns.TypePTR, "NXDOMAIN"},
		{"router", dns.TypeA, "forwarded"}, {"example.com", dns.TypeA, "forwarded"}, {".", dns.TypeNS, "forwarded"},
		{"300.0.88.10.in-addr.arpa", dns.TypePTR, "forwarded"},
	} {
		reply := n.answer(question(c.name, c.kind), client)
		if got := text(reply); got != c.want {
			t.Errorf("%s %s: %s, want %s", c.name, dns.TypeToString[c.kind], got, c.want)
		}
		if reply != nil && len(reply.Answer) == 0 && len(reply.Ns) != 1 {
			t.Errorf("%s %s: no SOA record limits how long that holds", c.name, dns.TypeToString[c.kind])
		}
	}
	if got := text(n.answer(question("db", dns.TypeA), netip.MustParseAddr("10.88.9.9"))); got != "NOERROR, A 10.88.0.9" {
		t.Errorf("a client without a namespace gets %s", got)
	}
	srv := n.answer(question("_sql._tcp.sql.shop.svc.cluster.local", dns.TypeSRV), client)
	if len(srv.Extra) != 1 || !strings.Contains(srv.Extra[0].String(), "10.88.0.2") {
		t.Errorf("SRV comes without the address: %v", srv.Extra)
	}
}

// Only of cluster.local does this server know that all other names do not exist.
func TestOtherDomainIsForwarded(t *testing.T) {
	s := snapshot()
	s.Domain = "example.com"
	n := newNames(s)
	for name, want := range map[string]string{"www.example.com": "forwarded", "x.svc.example.com": "NXDOMAIN",
		"a.b.cluster.local": "forwarded"} {
		if got := text(n.answer(question(name, dns.TypeA), client)); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

func TestClients(t *testing.T) {
	n := newNames(snapshot())
	bridge, loopback := n.Listen[0], netip.MustParseAddr("127.88.0.1")
	for _, c := range []struct {
		client   string
		listener netip.Addr
		want     bool
	}{
		{"10.88.0.7", bridge, true}, {"10.88.0.1", bridge, true}, {"fd00::9", bridge, true},
		{"192.0.2.1", bridge, false}, {"127.0.0.1", bridge, false}, {"10.89.0.1", bridge, false},
		{"127.0.0.1", loopback, true}, {"10.88.0.7", loopback, false},
	} {
		if got := n.allows(netip.MustParseAddr(c.client), c.listener); got != c.want {
			t.Errorf("%s at %s: %v", c.client, c.listener, got)
		}
	}
}

// reply answers a query with one address.
func reply(query *dns.Msg, ttl uint32) *dns.Msg {
	m := new(dns.Msg).SetReply(query)
	m.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: query.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET,
		Ttl: ttl}, A: net.IPv4(192, 0, 2, 1)}}
	return m
}

func TestCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache()
		query := question("far.example", dns.TypeA)
		key := keyOf(question("FAR.example", dns.TypeA))
		c.add(keyOf(query), reply(query, 10))
		time.Sleep(4 * time.Second)
		if got := c.get(key); got == nil || got.Answer[0].Header().Ttl != 6 {
			t.Fatalf("after 4 s of 10: %v", got)
		}
		time.Sleep(6 * time.Second)
		if got := c.get(key); got != nil || c.bytes != 0 || len(c.entries) != 0 {
			t.Errorf("after its TTL: %v, %d bytes", got, c.bytes)
		}
		for name, answer := range map[string]*dns.Msg{
			"a failure":            {MsgHdr: dns.MsgHdr{Rcode: dns.RcodeServerFailure}},
			"a truncated answer":   {MsgHdr: dns.MsgHdr{Truncated: true}, Answer: reply(query, 10).Answer},
			"a TTL of 0":           reply(query, 0),
			"no record and no SOA": {},
			"no name and no SOA":   {MsgHdr: dns.MsgHdr{Rcode: dns.RcodeNameError}},
		} {
			if c.add(key, answer); c.get(key) != nil {
				t.Errorf("%s is remembered", name)
			}
		}
		missing := &dns.Msg{MsgHdr: dns.MsgHdr{Rcode: dns.RcodeNameError}, Ns: []dns.RR{newNames(snapshot()).authority()}}
		c.add(key, missing)
		if got := c.get(key); got == nil || got.Rcode != dns.RcodeNameError {
			t.Errorf("that a name does not exist is not remembered: %v", got)
		}
		time.Sleep(recordTTL * time.Second)
		if c.get(key) != nil {
			t.Error("it is remembered for longer than the SOA record says")
		}
	})
}

// What one client asks for can neither fill the memory nor keep what others use out of the cache.
func TestCacheIsBounded(t *testing.T) {
	c := newCache()
	used := question("used.example", dns.TypeA)
	c.add(keyOf(used), reply(used, 600))
	for i := range 3 * maxCacheEntries {
		query := question(fmt.Sprintf("%d.%s.example", i, strings.Repeat("a", 60)), dns.TypeA)
		answer := reply(query, 600)
		for range i % 20 {
			answer.Answer = append(answer.Answer, answer.Answer[0])
		}
		c.add(keyOf(query), answer)
		if i%1000 == 0 && c.get(keyOf(used)) == nil {
			t.Fatalf("an entry in use is forgotten after %d others", i)
		}
	}
	if c.bytes > maxCacheBytes || c.order.Len() > maxCacheEntries || len(c.entries) != c.order.Len() ||
		c.order.Len() < 1000 {
		t.Errorf("%d bytes in %d entries", c.bytes, c.order.Len())
	}
}

// resolvConf writes a file with name servers.
func resolvConf(t *testing.T, servers ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(path, []byte("nameserver "+strings.Join(servers, "\nnameserver ")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFailover(t *testing.T) {
	conf := resolvConf(t, "192.0.2.1", "192.0.2.2")
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		behaviour := map[string]func(context.Context, *dns.Msg) (*dns.Msg, error){}
		f := New("", slog.New(slog.DiscardHandler)).forward
		f.exchange = func(ctx context.Context, network, server string, query *dns.Msg) (*dns.Msg, error) {
			asked = append(asked, strings.TrimSuffix(server, ":53"))
			return behaviour[strings.TrimSuffix(server, ":53")](ctx, query)
		}
		works := func(_ context.Context, q *dns.Msg) (*dns.Msg, error) { return reply(q, 0), nil }
		hangs := func(ctx context.Context, _ *dns.Msg) (*dns.Msg, error) { <-ctx.Done(); return nil, ctx.Err() }
		code := func(code int) func(context.Context, *dns.Msg) (*dns.Msg, error) {
			return func(_ context.Context, q *dns.Msg) (*dns.Msg, error) { return new(dns.Msg).SetRcode(q, code), nil }
		}
		other := func(_ context.Context, q *dns.Msg) (*dns.Msg, error) {
			return reply(question("other.example", dns.TypeA), 9), nil
		}
		for _, c := range []struct {
			name          string
			first, second func(context.Context, *dns.Msg) (*dns.Msg, error)
			want, asked   string
		}{
			{"both work", works, works, "NOERROR, A 192.0.2.1", "192.0.2.1"},
			{"the first hangs", hangs, works, "NOERROR, A 192.0.2.1", "192.0.2.1 192.0.2.2"},
			{"it hung just now", works, works, "NOERROR, A 192.0.2.1", "192.0.2.2"},
			{"the first refuses", code(dns.RcodeRefused), works, "NOERROR, A 192.0.2.1", "192.0.2.1 192.0.2.2"},
			{"a name does not exist", code(dns.RcodeNameError), works, "NXDOMAIN", "192.0.2.1"},
			{"both fail", code(dns.RcodeServerFailure), code(dns.RcodeServerFailure), "SERVFAIL", "192.0.2.1 192.0.2.2"},
			{"an answer to another question", other, works, "NOERROR, A 192.0.2.1", "192.0.2.1 192.0.2.2"},
			{"both hang", hangs, hangs, "error", "192.0.2.2 192.0.2.1"},
		} {
			asked, behaviour["192.0.2.1"], behaviour["192.0.2.2"] = nil, c.first, c.second
			begin := time.Now()
			answer, err := f.ask(t.Context(), question("far.example", dns.TypeA), client, &Snapshot{ResolvConf: conf})
			got := "error"
			if err == nil {
				got = text(answer)
			}
			if got != c.want || strings.Join(asked, " ") != c.asked {
				t.Errorf("%s: %s (%v) from %q", c.name, got, err, asked)
			}
			if took := time.Since(begin); took > forwardTimeout {
				t.Errorf("%s: it took %s", c.name, took)
			}
			if c.name != "the first hangs" && c.name != "an answer to another question" {
				time.Sleep(upstreamPause)
			}
		}
	})
}

// The name servers of the node are read again when their file was changed. This server is not one.
func TestUpstreams(t *testing.T) {
	own := netip.MustParseAddr("10.88.0.1")
	path := resolvConf(t, "192.0.2.1", "10.88.0.1", "fe80::1%eth0")
	var u upstreams
	if got, err := u.list(path, []netip.Addr{own}); err != nil ||
		!slices.Equal(got, []string{"192.0.2.1:53", "[fe80::1%eth0]:53"}) {
		t.Errorf("%q (%v)", got, err)
	}
	if err := os.Rename(resolvConf(t, "192.0.2.9"), path); err != nil {
		t.Fatal(err)
	}
	if got, err := u.list(path, nil); err != nil || !slices.Equal(got, []string{"192.0.2.9:53"}) {
		t.Errorf("after a change: %q (%v)", got, err)
	}
	for _, missing := range []string{"", path + ".missing"} {
		if got, err := u.list(missing, nil); err != nil || len(got) > 0 {
			t.Errorf("%q: %q (%v)", missing, got, err)
		}
	}
}

// A client that asks for slow names keeps a part of the server busy, and pods keep their names.
func TestForwardsAreBounded(t *testing.T) {
	conf := resolvConf(t, "192.0.2.1")
	synctest.Test(t, func(t *testing.T) {
		var atOnce, most atomic.Int64
		s := newServer(func(ctx context.Context, _, _ string, _ *dns.Msg) (*dns.Msg, error) {
			most.Store(max(most.Load(), atOnce.Add(1)))
			defer atOnce.Add(-1)
			<-ctx.Done()
			return nil, errors.New("slow")
		})
		n := newNames(snapshot())
		n.ResolvConf = conf
		s.names.Store(n)
		failed := 0
		var asked sync.WaitGroup
		for i := range 300 {
			r, _ := parse(pack1(t, question(fmt.Sprintf("%d.example", i), dns.TypeA)), client, true)
			if s.forwards.acquire(client) {
				asked.Go(func() {
					defer s.forwards.release(client)
					s.remote(context.Background(), r, n)
				})
			} else {
				failed++
			}
		}
		synctest.Wait()
		if most.Load() != maxForwardsPerClient || failed != 300-maxForwardsPerClient {
			t.Errorf("%d queries were sent at once, %d rejected", most.Load(), failed)
		}
		if !s.forwards.acquire(db) {
			t.Error("another client is rejected too")
		}
		s.forwards.release(db)
		r, _ := parse(pack1(t, question("db", dns.TypeA)), client, false)
		if got := text(s.local(r, n)); got != "NOERROR, A 10.88.0.2" {
			t.Errorf("the name of a pod: %s", got)
		}
		asked.Wait()
	})
}

func pack1(t testing.TB, m *dns.Msg) []byte {
	t.Helper()
	packet, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return packet
}

// An answer is never larger than the client's packet allows: with the source checked, this keeps
// clients from flooding each other.
func TestRepliesAreTruncated(t *testing.T) {
	s := snapshot()
	var many []netip.Addr
	for i := range 250 {
		many = append(many, netip.AddrFrom4([4]byte{10, 88, 1, byte(i)}))
	}
	s.Zone.Names["many.shop.svc.cluster.local"] = zone.Records{Addresses: many}
	n := newNames(s)
	for size, limit := range map[uint16]int{0: minUDPSize, 100: minUDPSize, 1000: 1000, 65000: packetSize} {
		query := question("many.shop.svc.cluster.local", dns.TypeA)
		if size > 0 {
			query.SetEdns0(size, false)
		}
		r, _ := parse(pack1(t, query), client, false)
		packet, err := r.pack(n.answer(r.query, client))
		var reply dns.Msg
		if err != nil || len(packet) > limit || reply.Unpack(packet) != nil || !reply.Truncated {
			t.Errorf("for %d: %d bytes, truncated %v (%v)", size, len(packet), reply.Truncated, err)
		}
	}
	r, _ := parse(pack1(t, question("many.shop.svc.cluster.local", dns.TypeA)), client, true)
	if packet, err := r.pack(n.answer(r.query, client)); err != nil || len(packet) < 250*16 {
		t.Errorf("over TCP: %d bytes (%v)", len(packet), err)
	}
}

func TestParseRejects(t *testing.T) {
	response := question("a.example", dns.TypeA)
	response.Response = true
	update := question("a.example", dns.TypeSOA)
	update.Opcode = dns.OpcodeUpdate
	two := question("a.example", dns.TypeA)
	two.Question = append(two.Question, two.Question[0])
	for name, c := range map[string]struct {
		packet []byte
		want   string
	}{
		"nothing":    {nil, "none"},
		"no packet":  {[]byte("GET / HTTP/1.1\r\n"), "none"},
		"a response": {pack1(t, response), "none"},
		"too large":  {make([]byte, maxQuery+1), "none"},
		"an update":  {pack1(t, update), "NOTIMP"},
		"two":        {pack1(t, two), "FORMERR"},
		"a transfer": {pack1(t, question("cluster.local", dns.TypeAXFR)), "REFUSED"},
	} {
		r, reply := parse(c.packet, client, false)
		got := "none"
		if reply != nil {
			got = dns.RcodeToString[reply.Rcode]
		}
		if r != nil || got != c.want {
			t.Errorf("%s: %v %s, want %s", name, r, got, c.want)
		}
	}
}

func FuzzPackets(f *testing.F) {
	for _, m := range []*dns.Msg{
		question("db", dns.TypeA), question("_sql._tcp.sql.shop.svc.cluster.local", dns.TypeSRV),
		question("far.shop.svc.cluster.local", dns.TypeA),
		question("2.0.88.10.in-addr.arpa", dns.TypePTR), question("x.ip6.arpa", dns.TypePTR),
		question("a.example", dns.TypeA).SetEdns0(4096, true),
	} {
		packet, err := m.Pack()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(packet, false)
		f.Add(packet, true)
	}
	f.Add([]byte{0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0xc0, 12, 0, 1, 0, 1}, false)
	s := newServer(func(_ context.Context, _, _ string, q *dns.Msg) (*dns.Msg, error) { return reply(q, 10), nil })
	n := s.names.Load()
	n.ResolvConf = filepath.Join(f.TempDir(), "resolv.conf")
	if err := os.WriteFile(n.ResolvConf, []byte("nameserver 192.0.2.1\n"), 0o600); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, packet []byte, tcp bool) {
		r, reply := parse(packet, client, tcp)
		if r != nil {
			if reply = s.local(r, n); reply == nil {
				reply = s.remote(t.Context(), r, n)
			}
		}
		if reply == nil {
			return
		}
		out, err := pack(r, reply)
		if err != nil {
			return // a name of the question that cannot be encoded again is not answered
		}
		if r != nil && len(out) > max(r.size, minUDPSize) {
			t.Errorf("a reply of %d bytes, the client accepts %d", len(out), r.size)
		}
		if out[0] != packet[0] || out[1] != packet[1] || out[2]&0x80 == 0 {
			t.Errorf("the reply % x is not to the query % x", out, packet)
		}
	})
}

package httpapi

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podstead/podstead/api"
	"github.com/podstead/podstead/httpapi/access"
)

// fakeListener returns connections of chosen addresses.
type fakeListener struct {
	net.Listener
	conns chan net.Conn
}

func (l fakeListener) Accept() (net.Conn, error) { return <-l.conns, nil }

// fakeConn is one end of a pipe with an address.
type fakeConn struct {
	net.Conn
	address string
}

func (c fakeConn) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(c.address))
}

// connectionsHarness connects clients to a limited listener.
type connectionsHarness struct {
	*testing.T
	conns  chan net.Conn
	listen *connections
}

func newConnectionsHarness(t *testing.T, limits connectionLimits) *connectionsHarness {
	h := &connectionsHarness{T: t, conns: make(chan net.Conn, 1)}
	h.listen = limitConnections(fakeListener{conns: h.conns}, limits)
	return h
}

// dial returns both ends of a connection, the server's nil if it was not admitted.
func (h *connectionsHarness) dial(address string) (client net.Conn, server *limitedConn) {
	h.Helper()
	client, other := net.Pipe()
	c := &limitedConn{Conn: fakeConn{other, address}, listener: h.listen,
		address: clientPrefix(fakeConn{address: address}.RemoteAddr())}
	admitted, closing := h.listen.add(c)
	for _, old := range closing {
		_ = old.Close()
	}
	if !admitted {
		return client, nil
	}
	return client, c
}

func closed(client net.Conn) bool {
	_ = client.SetReadDeadline(time.Now().Add(time.Millisecond))
	_, err := client.Read(make([]byte, 1))
	return err == io.EOF
}

func TestConnectionLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newConnectionsHarness(t, connectionLimits{total: 8, perAddress: 6, pending: 6, pendingPerAddress: 3,
			timeout: time.Minute})
		// An authenticated client is connected.
		good, server := h.dial("192.0.2.1:1000")
		server.authenticated()
		// Another address may have three connections that are not authenticated: the newest.
		var idle []net.Conn
		for range 10 {
			c, s := h.dial("192.0.2.2:1000")
			if s == nil {
				t.Fatal("a new connection was rejected")
			}
			idle = append(idle, c)
		}
		for i, c := range idle {
			if closed(c) != (i < 7) {
				t.Errorf("connection %d is closed: %v", i, closed(c))
			}
		}
		// Many addresses have six in total.
		for i := range 50 {
			c, s := h.dial(fmt.Sprintf("198.51.100.%d:1", i))
			if s == nil {
				t.Fatal("a new connection was rejected")
			}
			idle = append(idle, c)
		}
		open := 0
		for _, c := range idle {
			if !closed(c) {
				open++
			}
		}
		if open != 6 || h.listen.pending.Len() != 6 || h.listen.open != 7 {
			t.Errorf("%d idle connections are open, %d counted, %d in total", open, h.listen.pending.Len(), h.listen.open)
		}
		// A new client gets in.
		next, server := h.dial("203.0.113.1:1")
		server.authenticated()
		// They do not stay.
		time.Sleep(time.Minute)
		synctest.Wait()
		if closed(good) || closed(next) || h.listen.pending.Len() != 0 || h.listen.open != 2 {
			t.Errorf("%d connections are open, %d are not authenticated", h.listen.open, h.listen.pending.Len())
		}
		// One address cannot have all authenticated connections.
		for i := range 10 {
			_, s := h.dial("192.0.2.2:1000")
			if (s != nil) != (i < 6) {
				t.Errorf("connection %d of an address is admitted: %v", i, s != nil)
			}
			if s != nil {
				s.authenticated()
			}
		}
		if _, s := h.dial("203.0.113.2:1"); s != nil {
			t.Error("more than all connections are admitted")
		}
		// A closed one makes space, once.
		_, _ = server.Close(), server.Close()
		if _, s := h.dial("203.0.113.2:1"); s == nil || h.listen.open != 8 {
			t.Errorf("no space after one was closed: %d open", h.listen.open)
		}
	})
}

func TestAddressesOfOneClient(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.7:1": "192.0.2.7/32", "[::ffff:192.0.2.7]:1": "192.0.2.7/32", "[2001:db8:1:2:3::4]:1": "2001:db8:1:2::/64",
		"[fe80::1%eth0]:1": "fe80::/64",
	} {
		if got := clientPrefix(net.TCPAddrFromAddrPort(netip.MustParseAddrPort(address))); got.String() != want {
			t.Errorf("%s counts as %s, want %s", address, got, want)
		}
	}
	if p := clientPrefix(&net.UnixAddr{}); p.IsValid() {
		t.Errorf("a unix socket has the address %s", p)
	}
}

// Idle connections and rejected requests of many addresses lock out neither connected nor
// new clients.
func TestIdleConnectionsDoNotLockOutClients(t *testing.T) {
	b := newTestServer(t).withTokens()
	b.lowered = &connectionLimits{total: 32, perAddress: 16, pending: 8, pendingPerAddress: 4, timeout: time.Minute}
	b.start()
	url := "https://" + b.tlsAddress + "/pods"
	connected := b.client()
	if code, body := b.request(connected, "GET", url, readerToken); code != 200 {
		t.Fatal(code, body)
	}
	for i := range 200 {
		dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(i%50))}}
		conn, err := tls.DialWithDialer(dialer, "tcp", b.tlsAddress, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if i%2 == 0 {
			_, _ = io.WriteString(conn, "GET /pods HTTP/1.1\r\nHost: x\r\n\r\n")
		}
	}
	if code, body := b.request(b.client(), "GET", url, readerToken); code != 200 {
		t.Errorf("a new client: %d %s", code, body)
	}
	reused := false
	ctx := httptrace.WithClientTrace(t.Context(),
		&httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { reused = i.Reused }})
	req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+readerToken)
	resp, err := connected.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 200 || !reused {
		t.Errorf("the connected client: %s, on the same connection %v", resp.Status, reused)
	}
}

// A 401 closes its connection, with HTTP/1.1 and HTTP/2.
func TestRejectedClientIsDisconnected(t *testing.T) {
	b := newTestServer(t).withTokens()
	b.lowered = &connectionLimits{total: 32, pending: 16, pendingPerAddress: 16, timeout: time.Hour}
	b.start()
	for _, h2 := range []bool{false, true} {
		c := b.client()
		c.Transport.(*http.Transport).ForceAttemptHTTP2 = h2
		conns, closed := make(chan net.Conn, 2), make(chan struct{}, 2)
		c.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, address)
			return &closeNotifyConn{Conn: conn, closed: closed}, err
		}
		ctx := httptrace.WithClientTrace(t.Context(),
			&httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { conns <- i.Conn }})
		var used [2]net.Conn
		for i := range used {
			req, err := http.NewRequestWithContext(ctx, "GET", "https://"+b.tlsAddress+"/pods", nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := c.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if resp.StatusCode != 401 || (resp.ProtoMajor == 2) != h2 {
				t.Errorf("%s %s", resp.Proto, resp.Status)
			}
			used[i] = <-conns
			// The client reads the end of the connection some time after the response.
			select {
			case <-closed:
			case <-time.After(time.Minute):
				t.Fatalf("HTTP/2 %v: the connection is open after a 401", h2)
			}
		}
		if used[0] == used[1] {
			t.Errorf("HTTP/2 %v: the connection is used again after a 401", h2)
		}
	}
}

// A frame announced as large as HTTP/2 allows ends the connection before its content, for
// which memory would be held.
func TestLargeFramesAreRejected(t *testing.T) {
	b := newTestServer(t).withTokens().start()
	conn, err := tls.Dial("tcp", b.tlsAddress, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	frame := func(length int, kind byte, payload ...byte) []byte {
		var head [9]byte
		binary.BigEndian.PutUint32(head[:], uint32(length)<<8)
		head[3] = kind
		return append(head[:], payload...)
	}
	const settings, goAway = 4, 7
	large := frame(1<<20, settings)
	if _, err := conn.Write(append(append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), frame(0, settings)...),
		large...)); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	response, err := io.ReadAll(conn)
	if os.IsTimeout(err) {
		t.Fatalf("the connection is still open after %d bytes of answer", len(response))
	}
	streams, rejected := uint32(0), false
	for rest := response; len(rest) >= 9; {
		n := int(binary.BigEndian.Uint32(rest) >> 8)
		if len(rest) < 9+n {
			break
		}
		payload := rest[9 : 9+n]
		switch rest[3] {
		case settings:
			for ; len(payload) >= 6; payload = payload[6:] {
				if binary.BigEndian.Uint16(payload) == 3 {
					streams = binary.BigEndian.Uint32(payload[2:])
				}
				if v := binary.BigEndian.Uint32(payload[2:]); binary.BigEndian.Uint16(payload) == 5 && v > maxFrameSize {
					t.Errorf("frames of %d bytes are accepted", v)
				}
			}
		case goAway:
			rejected = bytes.HasSuffix(payload[:8], []byte{0, 0, 0, 6}) // FRAME_SIZE_ERROR
		}
		rest = rest[9+n:]
	}
	if streams == 0 || streams > 100 || !rejected {
		t.Errorf("at most %d concurrent streams, frame rejected: %v", streams, rejected)
	}
}

// A chain of intermediate certificates is served with an error that reports what is accepted.
func TestLongChainIsRejected(t *testing.T) {
	b := newTestServer(t).withTokens().start()
	certPEM, keyPEM, _, err := b.server.remote.clientCA.Client("x", []string{access.RoleAdmin.Group()}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		pair.Certificate = append(pair.Certificate, pair.Certificate[0])
	}
	if code, body := b.request(b.client(pair), "GET", "https://"+b.tlsAddress+"/pods", ""); code != 401 ||
		!strings.Contains(body, "at most 3 are accepted") {
		t.Errorf("%d %s", code, body)
	}
}

// openWatch opens a watch that reports why it ended.
func (b *testServer) openWatch(c *http.Client, address, token string) {
	b.Helper()
	req, err := http.NewRequestWithContext(b.Context(), "GET", "https://"+address+"/api/v1/pods?watch=1", nil)
	if err != nil {
		b.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := c.Do(req)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != 200 {
		b.Fatal(resp.Status)
	}
}

// watches makes watches report their callers and the cause of their end.
func (b *testServer) watches() <-chan string {
	ended := make(chan string, 8)
	b.src.Kube = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		ended <- access.CallerFrom(r.Context()).User + ": " + context.Cause(r.Context()).Error()
	})
	return ended
}

// A token that is removed or loses permissions ends the watches that it has opened, without
// any other request; other tokens keep theirs.
func TestRemovedTokenEndsWatches(t *testing.T) {
	b := newTestServer(t).withTokens()
	ended := b.watches()
	b.start()
	for _, token := range []string{readerToken, execToken, adminToken} {
		b.openWatch(b.client(), b.tlsAddress, token)
	}
	b.writeTokens(readerToken + ",ann,read\n" + adminToken + ",eve,admin\n")
	if who := <-ended; who != "bob: the credential of the client is not valid any more: the token is unknown" {
		t.Errorf("ended: %s", who)
	}
	b.writeTokens(readerToken + ",ann,read\n" + adminToken + ",eve,exec\n")
	if who := <-ended; !strings.HasPrefix(who, "eve: ") || !strings.Contains(who, "permissions") {
		t.Errorf("ended: %s", who)
	}
	select {
	case who := <-ended:
		t.Errorf("ended too: %s", who)
	case <-time.After(50 * time.Millisecond):
	}
}

// A certificate that expires ends the watches that it has opened.
func TestExpiredCertificateEndsWatches(t *testing.T) {
	b := newTestServer(t).withTokens()
	ended := b.watches()
	b.start()
	_, lasting := b.kubeconfig(access.RoleRead, time.Hour)
	b.openWatch(lasting, b.tlsAddress, "")
	// A second more than a certificate can lose by its resolution.
	_, short := b.kubeconfig(access.RoleExec, 3*time.Second)
	b.openWatch(short, b.tlsAddress, "")
	if who := <-ended; who != "podstead-exec: "+errExpired.Error() {
		t.Errorf("ended: %s", who)
	}
}

// A single kubeconfig can be revoked: its watches end, it stays revoked after a restart,
// and others remain valid.
func TestSingleKubeconfigIsRevoked(t *testing.T) {
	b := newTestServer(t).withTokens()
	ended := b.watches()
	b.start()
	lost, thief := b.kubeconfig(access.RoleExec, time.Hour)
	_, kept := b.kubeconfig(access.RoleRead, time.Hour)
	b.openWatch(thief, b.tlsAddress, "")
	b.openWatch(kept, b.tlsAddress, "")
	if code, body := b.request(b.socketClient(), "DELETE", "http://podstead/podstead/v1/kubeconfig/"+lost.ID,
		""); code != 204 {
		t.Fatal(code, body)
	}
	if who := <-ended; !strings.HasPrefix(who, "podstead-exec: ") {
		t.Errorf("ended: %s", who)
	}
	check := func() {
		t.Helper()
		if code, body := b.request(thief, "GET", "https://"+b.tlsAddress+"/pods", ""); code != 401 ||
			!strings.Contains(body, "revoked") {
			t.Errorf("the revoked one: %d %s", code, body)
		}
		if code, body := b.request(kept, "GET", "https://"+b.tlsAddress+"/pods", ""); code != 200 {
			t.Errorf("another one: %d %s", code, body)
		}
	}
	check()
	b.stop()
	b.start()
	check()
	if code, _ := b.request(b.socketClient(), "DELETE", "http://podstead/podstead/v1/kubeconfig/..x", ""); code != 404 &&
		code != 400 {
		t.Errorf("an invalid ID = %d", code)
	}
	// While it is not known which ones are revoked, all are.
	b.stop()
	if err := os.Remove(b.server.remote.files.revoked.Path()); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(b.server.remote.files.revoked.Path(), 0o700); err != nil {
		t.Fatal(err)
	}
	b.start()
	if code, body := b.request(kept, "GET", "https://"+b.tlsAddress+"/pods", ""); code != 401 {
		t.Errorf("with an unreadable list: %d %s", code, body)
	}
}

// A kubeconfig that can change something is valid for a day, unless more is requested.
func TestKubeconfigIsShortLivedByDefault(t *testing.T) {
	b := newTestServer(t).start()
	for role, want := range map[string]time.Duration{"": 24 * time.Hour, "admin": 24 * time.Hour, "exec": 24 * time.Hour,
		"read": 30 * 24 * time.Hour} {
		code, body := b.request(b.socketClient(), "POST", "http://podstead/podstead/v1/kubeconfig?role="+role, "")
		var k api.Kubeconfig
		if err := json.Unmarshal([]byte(body), &k); err != nil || code != 200 {
			t.Fatal(code, body)
		}
		if left := time.Until(k.Expires); left > want || left < want-time.Minute || k.ID == "" {
			t.Errorf("role %q: valid for %v, ID %q; want %v", role, left, k.ID, want)
		}
	}
}

// closeNotifyConn sends once when the client closes it.
type closeNotifyConn struct {
	net.Conn
	once   sync.Once
	closed chan<- struct{}
}

func (c *closeNotifyConn) Close() error {
	c.once.Do(func() { c.closed <- struct{}{} })
	return c.Conn.Close()
}

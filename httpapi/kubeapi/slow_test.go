package kubeapi

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Watches whose clients read nothing, of more data than the socket buffers hold, do not
// affect a watch whose client reads.
func TestSlowWatchesDoNotAffectOthers(t *testing.T) {
	b := newTestAPI(t, pod("shop", "web", v1.PodRunning))
	for _, r := range b.api.resources {
		r.writeTimeout = time.Hour // who waited for them would wait until the test is given up
	}
	var responded []net.Conn
	for range 100 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		if err := conn.(*net.TCPConn).SetReadBuffer(4096); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprintf(conn, "GET /api/v1/pods?watch=1 HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		responded = append(responded, conn)
	}
	for _, conn := range responded {
		// The watch is open when the header of the response has arrived.
		if line, err := bufio.NewReaderSize(conn, 16).ReadString('\n'); err != nil || !strings.Contains(line, "200") {
			t.Fatalf("%q, %v", line, err)
		}
	}
	good := b.watch("/api/v1/pods?watch=1", "application/json")
	good.lines.Buffer(nil, 1<<21)
	good.next()
	large := strings.Repeat("x", 1<<20)
	for i := range 10 {
		p := pod("shop", "web", v1.PodRunning)
		p.Annotations = map[string]string{"large": large, "round": fmt.Sprint(i)}
		b.pods.set("web", p)
		if _, e := good.next(); e.Object.Annotations["round"] != fmt.Sprint(i) {
			t.Fatalf("round %d: got %q", i, e.Object.Annotations["round"])
		}
	}
	if code, _ := b.request("GET", "/api/v1/namespaces/shop/pods/web", ""); code != 200 {
		t.Errorf("a request next to them: %d", code)
	}
}

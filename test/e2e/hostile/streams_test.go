package hostile

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/internal/spdy"
	"github.com/podstead/podstead/test/e2e/harness"
)

// tlsConfig trusts the daemon's certificate.
func (n *hostileNode) tlsConfig() *tls.Config {
	n.T.Helper()
	pem, err := os.ReadFile(n.ca)
	if err != nil {
		n.T.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	return &tls.Config{RootCAs: pool}
}

// client returns a client of the TLS port that opens a connection for each request.
func (n *hostileNode) client() *http.Client {
	return &http.Client{Transport: &http.Transport{TLSClientConfig: n.tlsConfig(), DisableKeepAlives: true,
		ForceAttemptHTTP2: false}}
}

// upgrade opens a SPDY connection over TLS with a token.
func (n *hostileNode) upgrade(path, token, protocol string) (*spdy.Conn, error) {
	conn, err := tls.Dial("tcp", n.address, n.tlsConfig())
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequest(http.MethodPost, "https://"+n.address+path, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	return spdy.Upgrade(n.T.Context(), conn, r, nil, protocol)
}

// inParallel runs a function count times, a few at a time.
func inParallel(count int, do func(i int) error) error {
	var wg sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	next := atomic.Int64{}
	for range 6 {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < count; i = int(next.Add(1)) - 1 {
				if err := do(i); err != nil {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// flood writes zeros until the other side accepts no more for a while, or the connection ends.
func flood(to io.Writer, sent *atomic.Int64) {
	for b := make([]byte, 32<<10); ; {
		n, err := to.Write(b)
		if sent.Add(int64(n)); err != nil {
			return
		}
	}
}

// awaitFull waits until the daemon has more to send than clients read, on this many connections.
func (n *hostileNode) awaitFull(count int) {
	n.T.Helper()
	_, port, err := net.SplitHostPort(n.address)
	if err != nil {
		n.T.Fatal(err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		n.T.Fatal(err)
	}
	local := fmt.Sprintf("0100007F:%04X", number)
	n.Await("the connections of clients that do not read are full", func() error {
		text, err := os.ReadFile("/proc/net/tcp")
		if err != nil {
			return err
		}
		full := 0
		for line := range strings.Lines(string(text)) {
			// The fields are sl, local_address, rem_address, st and tx_queue:rx_queue.
			if f := strings.Fields(line); len(f) > 4 && f[1] == local && f[3] == "01" && !strings.HasPrefix(f[4], "00000000:") {
				full++
			}
		}
		if full < count {
			return fmt.Errorf("%d of %d are", full, count)
		}
		return nil
	})
}

// awaitStablePeak waits until the daemon's peak of memory has not grown for a while.
func (n *hostileNode) awaitStablePeak() {
	n.T.Helper()
	const polls = 100
	last, same := int64(0), 0
	n.Await("the daemon's peak of memory does not grow", func() error {
		now := harness.PeakMemory(n.T, n.Pid())
		if same++; now != last {
			last, same = now, 0
		}
		if same < polls {
			return fmt.Errorf("%d KiB", now>>10)
		}
		return nil
	})
}

// unreadPod has a container that does not read its input.
const unreadPod = `apiVersion: v1
kind: Pod
metadata: {name: unread}
spec:
  terminationGracePeriodSeconds: 0
  containers:
    - {name: main, image: IMAGE, stdin: true, command: [sleep, "100000"], SECURITY}
`

// streamsUnread opens as many sessions as the daemon admits, half of them over WebSocket, whose
// input the container does not read, and whose output, if there is one, the client does not
// read.
func streamsUnread(n *hostileNode) {
	n.writePod("unread", unreadPod)
	n.AwaitReady("unread")
	container := n.PodName("unread") + "/main?input=1&output=1&error=1&command=yes"
	const sessions = 250
	// sent is what each session has accepted.
	var sent [sessions]atomic.Int64
	var mu sync.Mutex
	var closers []func()
	defer func() {
		for _, end := range closers {
			end()
		}
	}()
	keep := func(end func()) {
		mu.Lock()
		defer mu.Unlock()
		closers = append(closers, end)
	}
	ctx, cancel := context.WithTimeout(n.T.Context(), 15*time.Minute)
	defer cancel()
	if err := inParallel(sessions, func(i int) error {
		if ctx.Err() != nil {
			return fmt.Errorf("session %d: %w", i, ctx.Err())
		}
		path := "/attach/default/" + container
		if i%10 == 0 {
			path = "/exec/default/" + container
		}
		if i%2 == 0 {
			d := websocket.Dialer{Subprotocols: []string{"v5.channel.k8s.io"}, TLSClientConfig: n.tlsConfig()}
			c, _, err := d.Dial("wss://"+n.address+path, http.Header{"Authorization": {"Bearer " + hostileExec}})
			if err != nil {
				return err
			}
			keep(func() { _ = c.Close() })
			go func() {
				// A small message first: a large one may never be accepted as a whole.
				for size := 32 << 10; c.WriteMessage(websocket.BinaryMessage, make([]byte, size)) == nil; size = 1 << 20 {
					sent[i].Add(int64(size))
				}
			}()
			return nil
		}
		c, err := n.upgrade(path, hostileExec, "v4.channel.k8s.io")
		if err != nil {
			return err
		}
		keep(c.Abort)
		var stdin io.Writer
		for _, name := range []string{v1.StreamTypeError, v1.StreamTypeStdin, v1.StreamTypeStdout, v1.StreamTypeStderr} {
			s, err := c.Open(v1.StreamType, name)
			if err != nil {
				return err
			}
			if name == v1.StreamTypeStdin {
				stdin = s
			}
		}
		go flood(stdin, &sent[i])
		return nil
	}); err != nil {
		n.T.Fatal(err)
	}
	all := int64(0)
	n.Await("each session accepts input", func() error {
		all = 0
		for i := range sent {
			now := sent[i].Load()
			if now == 0 {
				return fmt.Errorf("session %d has accepted none", i)
			}
			all += now
		}
		return nil
	})
	n.awaitStablePeak()
	n.T.Logf("the sessions accepted %d MiB", all>>20)
	n.check("sessions that are not read, open")
}

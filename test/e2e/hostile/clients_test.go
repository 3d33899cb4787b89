package hostile

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// http2Frame returns a frame of HTTP/2.
func http2Frame(kind, flags byte, stream uint32, payload []byte) []byte {
	head := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	return append(binary.BigEndian.AppendUint32(append(head, flags), stream), payload...)
}

// longChain returns a client certificate with 100 intermediates of 8192 bits, which nobody has
// signed.
func longChain() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	made := tls.Certificate{PrivateKey: key}
	modulus := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 8192), big.NewInt(1))
	for i := range 101 {
		c := &x509.Certificate{SerialNumber: big.NewInt(int64(i)), Subject: pkix.Name{CommonName: "eve"},
			NotAfter: time.Now().Add(time.Hour)}
		var public any = key.Public()
		if i > 0 {
			c.IsCA, c.BasicConstraintsValid = true, true
			public = &rsa.PublicKey{N: modulus, E: 65537}
		}
		der, err := x509.CreateCertificate(rand.Reader, c, c, public, key)
		if err != nil {
			return made, err
		}
		made.Certificate = append(made.Certificate, der)
	}
	return made, nil
}

// withoutCredentials opens connections from many addresses and sends as much as is accepted
// without credentials: nothing, headers that do not end in HTTP/1 and HTTP/2, large frames, and
// certificates that cost much. Clients with credentials are still served.
func withoutCredentials(n *hostileNode) {
	long, err := longChain()
	if err != nil {
		n.T.Fatal(err)
	}
	var mu sync.Mutex
	var open []net.Conn
	defer func() {
		for _, c := range open {
			_ = c.Close()
		}
	}()
	// connected counts the connections, reached those of each kind, and the last one those with
	// a long chain, on which the daemon has accepted what was sent.
	var connected atomic.Int64
	var reached [5]atomic.Int64
	const count = 1200
	_ = inParallel(count, func(i int) error {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+i%12))}, Timeout: time.Minute}
		raw, err := d.Dial("tcp", n.address)
		if err != nil {
			return err
		}
		connected.Add(1)
		mu.Lock()
		open = append(open, raw)
		mu.Unlock()
		kind := i % 4
		_ = raw.SetDeadline(time.Now().Add(time.Minute))
		config := n.tlsConfig()
		config.ServerName = "127.0.0.1"
		switch kind {
		case 0: // no handshake
			_, err = raw.Write([]byte{22, 3, 1, 0x40, 0, 1, 0, 0x3f, 0xfc})
		case 1:
			c := tls.Client(raw, config)
			_, err = c.Write(append([]byte("GET /pods HTTP/1.1\r\nHost: x\r\nX-A: "), bytes.Repeat([]byte("a"), 60<<10)...))
		case 2:
			config.NextProtos = []string{"h2"}
			c := tls.Client(raw, config)
			b := append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), http2Frame(4, 0, 0, nil)...)
			// A header of 60 KiB that does not end: literal, without indexing, no Huffman code.
			text := append([]byte{0, 1, 'x', 0x7f, 0x81, 0xdf, 0x03}, bytes.Repeat([]byte("a"), 60<<10)...)
			for at, kind := 0, byte(1); at < len(text); at, kind = at+16<<10, 9 {
				b = append(b, http2Frame(kind, 0, 1, text[at:min(len(text), at+16<<10)])...)
			}
			_, err = c.Write(b)
		case 3:
			if i%32 == 3 { // a handshake with a long chain is slow at this side too
				config.Certificates, kind = []tls.Certificate{long}, 4
			}
			c := tls.Client(raw, config)
			_, err = c.Write([]byte("GET /pods HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n"))
			if err == nil {
				_, _ = c.Write(make([]byte, 1<<20)) // not all of it is accepted
			}
		}
		if err == nil {
			reached[kind].Add(1)
		}
		return err // the daemon may close it at any time
	})
	if got := connected.Load(); got < count {
		n.T.Errorf("%d of %d connections were made", got, count)
	}
	for kind := range reached {
		if got := reached[kind].Load(); got < 10 {
			n.T.Errorf("the daemon accepted what was sent on %d connections of kind %d", got, kind)
		} else {
			n.T.Logf("kind %d: accepted on %d connections", kind, got)
		}
	}
	c := n.client()
	n.Await("a client with credentials is served", func() error {
		if code, body := n.Request(c, http.MethodGet, "https://"+n.address+"/pods", hostileReader); code != http.StatusOK {
			return fmt.Errorf("%d %s", code, body)
		}
		return nil
	})
	n.check("clients without credentials, open")
}

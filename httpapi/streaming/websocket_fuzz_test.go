package streaming

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// hijackable is a response whose connection is one end of a pipe.
type hijackable struct {
	*httptest.ResponseRecorder
	conn net.Conn
}

func (h hijackable) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return h.conn, bufio.NewReadWriter(bufio.NewReader(h.conn), bufio.NewWriter(h.conn)), nil
}

// webSocketFrame returns a masked frame of a client, with a mask of zeros.
func webSocketFrame(first byte, payload ...byte) []byte {
	return append([]byte{first, 0x80 | byte(len(payload)), 0, 0, 0, 0}, payload...)
}

// FuzzWebSocketFrames sends arbitrary bytes after the upgrade of an exec. The session must not
// panic, must not pass on more than it got, and must end when the client does.
func FuzzWebSocketFrames(f *testing.F) {
	const binary, continuation, final = 2, 0, 0x80
	f.Add(webSocketFrame(final|binary, 0, 'h', 'i'))
	f.Add(webSocketFrame(final|binary, 4, '{', '}'))
	f.Add(append(webSocketFrame(binary, 0, 'a'), webSocketFrame(final|continuation, 'b')...))
	f.Add(webSocketFrame(final|binary, closeChannel, 0))
	f.Add(webSocketFrame(final | binary))
	f.Add(webSocketFrame(final|8, 3, 232))
	f.Add(webSocketFrame(final|9, 'p'))
	f.Add([]byte{final | binary, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, frames []byte) {
		client, conn := net.Pipe()
		r := httptest.NewRequest("GET", "/exec", nil)
		for name, value := range map[string]string{
			"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
			"Sec-WebSocket-Key": "MDEyMzQ1Njc4OWFiY2RlZg==", "Sec-WebSocket-Protocol": protocolV5,
		} {
			r.Header.Set(name, value)
		}
		responded := make(chan struct{})
		go func() {
			defer close(responded)
			_, _ = io.Copy(io.Discard, client)
		}()
		c, err := acceptWebSocket(hijackable{httptest.NewRecorder(), conn}, r, Options{Stdin: true, Stdout: true})
		if err != nil {
			t.Fatal(err)
		}
		received := make(chan int, 2)
		for _, name := range []string{"stdin", "resize"} {
			go func() {
				n, _ := io.Copy(io.Discard, c.input(name))
				received <- int(n)
			}()
		}
		_, _ = client.Write(frames)
		_ = client.Close()
		<-c.done()
		if n := <-received + <-received; n > len(frames) {
			t.Errorf("%d bytes of input arrived, %d were sent", n, len(frames))
		}
		c.end(&metav1.Status{Status: metav1.StatusSuccess, Code: http.StatusOK})
		<-responded
	})
}

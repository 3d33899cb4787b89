package spdy

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/moby/spdystream"
	"github.com/moby/spdystream/spdy"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/podstead/podstead/internal/wakeup"
)

// dataFrame returns a data frame.
func dataFrame(stream uint32, flags byte, data []byte) []byte {
	head := binary.BigEndian.AppendUint32(nil, stream)
	return append(binary.BigEndian.AppendUint32(head, uint32(flags)<<24|uint32(len(data))), data...)
}

// control returns a control frame.
func control(kind uint16, payload []byte) []byte {
	head := binary.BigEndian.AppendUint16([]byte{0x80, 3}, kind)
	return append(binary.BigEndian.AppendUint32(head, uint32(len(payload))), payload...)
}

// openStreams returns the frames that open streams with headers.
func openStreams(t testing.TB, headers http.Header, ids ...uint32) []byte {
	t.Helper()
	var b bytes.Buffer
	framer, err := spdy.NewFramer(&b, &b)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		frame := &spdy.SynStreamFrame{StreamId: spdy.StreamId(id), Headers: headers}
		if err := framer.WriteFrame(frame); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// hostileClient is a client that writes what it likes to a server.
type hostileClient struct {
	net.Conn
	server  *Conn
	streams chan httpstream.Stream
}

func newHostileClient(t testing.TB, limits Limits) *hostileClient {
	t.Helper()
	client, conn := net.Pipe()
	c := &hostileClient{Conn: client, streams: make(chan httpstream.Stream, 64)}
	c.server = NewServer(conn, bufio.NewReader(conn), "test", limits, func(s httpstream.Stream) { c.streams <- s })
	go func() { _, _ = io.Copy(io.Discard, client) }() // the server's responses
	return c
}

func (c *hostileClient) end() {
	c.server.Abort()
	_ = c.Close()
}

// accept writes data frames of 16 KiB until the server reads no more, on each stream in turn, and
// adds what was accepted. It returns when the connection ends.
func (c *hostileClient) accept(accepted *atomic.Int64) {
	for {
		for id := uint32(1); id < 10; id += 2 {
			for frame := dataFrame(id, 0, make([]byte, 16<<10)); len(frame) > 0; {
				n, err := c.Write(frame[:min(512, len(frame))])
				if accepted.Add(int64(n)); err != nil {
					return
				}
				frame = frame[n:]
			}
		}
	}
}

// Streams that nothing reads hold a limited number of bytes, of a connection and together. A
// connection that is read goes on meanwhile, and what was held can be used again.
func TestUnreadStreamsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 3 << 20
		budget := NewBudget(limit)
		var clients []*hostileClient
		var total, first atomic.Int64
		for range 8 {
			c := newHostileClient(t, Limits{Streams: 8, Budget: budget})
			defer c.end()
			if _, err := c.Write(openStreams(t, http.Header{}, 1, 3, 5, 7, 9)); err != nil {
				t.Fatal(err)
			}
			if clients = append(clients, c); len(clients) == 1 {
				go c.accept(&first)
				synctest.Wait() // until the server reads no more
				if got := first.Load(); got < maxHeld/2 || got > maxHeld+64<<10 {
					t.Errorf("one connection holds %d bytes", got)
				}
				continue
			}
			go c.accept(&total)
		}
		synctest.Wait()
		if got := first.Load() + total.Load(); got < limit || got > limit+8*(guaranteed+8<<10) {
			t.Errorf("the connections hold %d bytes", got)
		}

		c := newHostileClient(t, Limits{Streams: 8, Budget: budget})
		defer c.end()
		go func() {
			_, _ = c.Write(openStreams(t, http.Header{}, 1))
			_, _ = c.Write(dataFrame(1, flagFinish, make([]byte, 1<<20)))
		}()
		if got, err := io.ReadAll(<-c.streams); len(got) != 1<<20 || err != nil {
			t.Errorf("read %d bytes, %v", len(got), err)
		}

		before := total.Load()
		clients[0].end()
		synctest.Wait()
		if got := total.Load() - before; got < maxHeld/2 {
			t.Errorf("after the end of a connection, others hold %d bytes more", got)
		}
		for _, c := range clients {
			c.end()
		}
		c.end()
		synctest.Wait()
		if budget.left != limit {
			t.Errorf("%d of %d bytes are left", budget.left, limit)
		}
	})
}

// Many streams do not stop a connection that is read while others have used up the budget.
func TestManyStreamsWithoutBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newHostileClient(t, Limits{Streams: 2048, Budget: NewBudget(0)})
		c.streams = make(chan httpstream.Stream, 2048)
		defer c.end()
		last := uint32(0)
		open := func(n int) []byte {
			var b []byte
			for range n {
				id := last*2 + 1
				last++
				payload := append(numbers(id, 0), 0, 0)
				b = append(b, control(frameSynStream, appendHeaders(payload, id == 1, http.Header{"port": {"80"}}))...)
			}
			return b
		}
		go func() { _, _ = c.Write(open(100)) }()
		synctest.Wait()
		first := <-c.streams
		for range 3 {
			go func() { _, _ = c.Write(dataFrame(1, 0, make([]byte, maxChunk))) }()
			synctest.Wait()
			if got := c.server.streams.unread; got != maxChunk+chunkCost {
				t.Fatalf("%d bytes were kept of a chunk", got)
			}
			if _, err := io.ReadFull(first, make([]byte, maxChunk)); err != nil {
				t.Fatal(err)
			}
		}
		go func() { _, _ = c.Write(open(1000)) }()
		synctest.Wait()
		if got := len(c.streams); got != 1099 {
			t.Errorf("%d streams were opened", got)
		}
	})
}

// Even at the maximum of a connection, a chunk gets in.
func TestChunkBesideStreams(t *testing.T) {
	a := account{budget: NewBudget(0), changed: wakeup.NewSignal()}
	if !a.reserveStream(maxHeld) || a.reserveStream(1) {
		t.Error("streams are not bounded by the maximum of the connection")
	}
	if !a.reserveData(maxChunk+chunkCost) || a.reserveData(1) {
		t.Error("not exactly one chunk was taken")
	}
}

// Small frames and streams without data count too.
func TestFramesAndStreamsCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newHostileClient(t, Limits{Streams: 1 << 20})
		defer c.end()
		var frames, opened atomic.Int64
		go func() {
			_, _ = c.Write(openStreams(t, http.Header{}, 1))
			for {
				if _, err := c.Write(dataFrame(1, 0, []byte("x"))); err != nil {
					return
				}
				frames.Add(1)
			}
		}()
		synctest.Wait()
		if got := frames.Load(); got < 100 || got > maxHeld/chunkCost {
			t.Errorf("the server holds %d frames", got)
		}
		c = newHostileClient(t, Limits{Streams: 1 << 20})
		defer c.end()
		go func() {
			for range c.streams {
				opened.Add(1)
			}
		}()
		go func() {
			large := http.Header{"x": {strings.Repeat("a", maxHeader)}}
			for id := uint32(1); ; id += 2 {
				payload := append(numbers(id, 0), 0, 0)
				if _, err := c.Write(control(frameSynStream, appendHeaders(payload, id == 1, large))); err != nil {
					return
				}
			}
		}()
		synctest.Wait()
		if got := opened.Load(); got < 100 || got > maxHeld/maxHeader {
			t.Errorf("the server has %d streams", got)
		}
		close(c.streams)
	})
}

// Frames of any size arrive complete and in order, and end their stream once.
func TestFramesArriveComplete(t *testing.T) {
	for _, size := range []int{0, 1, maxChunk - 1, maxChunk, maxChunk + 1, 3 * maxChunk, 1<<20 + 7} {
		c := newHostileClient(t, Limits{Streams: 8})
		sent := make([]byte, size)
		_, _ = rand.Read(sent)
		go func() {
			_, _ = c.Write(openStreams(t, http.Header{"x-name": {"v"}}, 1))
			_, _ = c.Write(dataFrame(1, 0, sent))
			_, _ = c.Write(control(frameSettings, make([]byte, 12))) // ignored
			_, _ = c.Write(dataFrame(1, flagFinish, sent))
			_, _ = c.Write(dataFrame(1, 0, sent)) // after the end
		}()
		stream := <-c.streams
		got, err := io.ReadAll(stream)
		if err != nil || !bytes.Equal(got, append(bytes.Clone(sent), sent...)) || stream.Headers().Get("X-Name") != "v" {
			t.Errorf("%d bytes: got %d, %v, headers %v", 2*size, len(got), err, stream.Headers())
		}
		c.end()
	}
}

// A stream whose connection was lost has no orderly end, one that the other side reset has.
func TestLostStream(t *testing.T) {
	for name, c := range map[string]struct {
		last []byte
		want error
	}{
		"lost":   {nil, io.ErrUnexpectedEOF},
		"reset":  {control(frameReset, []byte{0, 0, 0, 1, 0, 0, 0, 5}), nil},
		"closed": {dataFrame(1, flagFinish, nil), nil},
	} {
		client := newHostileClient(t, Limits{Streams: 8})
		go func() {
			_, _ = client.Write(append(append(openStreams(t, http.Header{}, 1), dataFrame(1, 0, []byte("x"))...), c.last...))
			_ = client.Close()
		}()
		if got, err := io.ReadAll(<-client.streams); string(got) != "x" || !errors.Is(err, c.want) {
			t.Errorf("%s: read %q, %v", name, got, err)
		}
		client.end()
	}
}

// The frames of this package are understood by other implementations, on both sides.
func TestOtherImplementations(t *testing.T) {
	pair := func() (a, b net.Conn) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if a, err = net.Dial("tcp", l.Addr().String()); err == nil {
			b, err = l.Accept()
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = a.Close(); _ = b.Close() })
		return a, b
	}
	echo := func(s io.ReadWriteCloser) { _, _ = io.Copy(s, s); _ = s.Close() }
	check := func(open func(http.Header) (io.ReadWriteCloser, error)) {
		t.Helper()
		for _, size := range []int{0, 10, 100_000} {
			s, err := open(http.Header{"Streamtype": {"data"}, "Port": {strconv.Itoa(size)}})
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				_, _ = s.Write(make([]byte, size))
				_ = s.Close()
			}()
			if got, err := io.ReadAll(s); len(got) != size || err != nil {
				t.Errorf("%d of %d bytes, %v", len(got), size, err)
			}
		}
	}
	a, b := pair()
	server := NewServer(b, bufio.NewReader(b), "test", Limits{Streams: 8}, func(s httpstream.Stream) {
		if s.Headers().Get("Streamtype") == "data" && s.Headers().Get("Port") != "" {
			go echo(s)
		}
	})
	defer server.Abort()
	client, err := spdystream.NewConnection(a, false)
	if err != nil {
		t.Fatal(err)
	}
	go client.Serve(spdystream.NoOpStreamHandler)
	check(func(h http.Header) (io.ReadWriteCloser, error) {
		s, err := client.CreateStream(h, nil, false)
		if err == nil {
			err = s.Wait()
		}
		return s, err
	})
	if _, err := client.Ping(); err != nil {
		t.Error(err)
	}

	a, b = pair()
	other, err := spdystream.NewConnection(b, true)
	if err != nil {
		t.Fatal(err)
	}
	go other.Serve(func(s *spdystream.Stream) {
		if err := s.SendReply(http.Header{"x": {"y"}}, false); err == nil && s.Headers().Get("Streamtype") == "data" {
			go echo(s)
		}
	})
	raw := &rawConn{Conn: a, buffered: bufio.NewReader(a)}
	own := &Conn{streams: newStreams(raw, false, Limits{}, func(httpstream.Stream) {}), raw: raw}
	defer own.Abort()
	check(func(h http.Header) (io.ReadWriteCloser, error) { return own.CreateStream(h) })
	if _, err := other.Ping(); err != nil {
		t.Error(err)
	}
}

// Frames that a client does not send, or that would make the server keep much, end the
// connection.
func TestHostileFramesEndTheConnection(t *testing.T) {
	open := openStreams(t, http.Header{}, 1)
	large := http.Header{}
	for _, name := range strings.Split("abcdefghijklmnopqrst", "") {
		large["x-"+name] = []string{"v"}
	}
	for name, frames := range map[string][]byte{
		"too many streams":         openStreams(t, http.Header{}, 1, 3, 5, 7),
		"a stream again":           append(bytes.Clone(open), open...),
		"a stream of the server":   openStreams(t, http.Header{}, 2),
		"many headers":             openStreams(t, large, 1),
		"a large header":           openStreams(t, http.Header{"x": {strings.Repeat("a", 1<<20)}}, 1),
		"a large control frame":    control(frameSynStream, make([]byte, maxControl+1)),
		"a short control frame":    control(frameSynStream, make([]byte, 9)),
		"a reset of 7 bytes":       control(frameReset, make([]byte, 7)),
		"a reply":                  control(frameSynReply, make([]byte, 16)),
		"headers after the stream": append(bytes.Clone(open), control(8, make([]byte, 16))...),
		"an unknown frame":         control(99, nil),
		"a data frame of stream 0": dataFrame(0, 0, []byte("x")),
		"another protocol":         []byte("GET / HTTP/1.1\r\n\r\n"),
	} {
		c := newHostileClient(t, Limits{Streams: 3})
		go func() { _, _ = c.Write(frames) }()
		// Another protocol looks like a data frame of a stream that does not exist.
		if name == "another protocol" {
			time.AfterFunc(10*time.Millisecond, func() { _ = c.Close() })
		}
		select {
		case <-c.server.CloseChan():
		case <-time.After(time.Minute):
			t.Errorf("%s: the connection is open", name)
		}
		c.end()
	}
}

// FuzzFrames sends arbitrary bytes to a server whose streams are read. It must not panic,
// and must end when the client does.
func FuzzFrames(f *testing.F) {
	open := openStreams(f, http.Header{"streamtype": {"data"}}, 1, 3)
	f.Add(open)
	f.Add(append(bytes.Clone(open), dataFrame(1, flagFinish, []byte("hello"))...))
	f.Add(append(bytes.Clone(open), control(frameReset, []byte{0, 0, 0, 1, 0, 0, 0, 5})...))
	f.Add(append(bytes.Clone(open), control(framePing, []byte{0, 0, 0, 1})...))
	f.Add(append(bytes.Clone(open), control(frameGoAway, make([]byte, 8))...))
	f.Add(control(frameSettings, make([]byte, 12)))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Fuzz(func(t *testing.T, frames []byte) {
		c := newHostileClient(t, Limits{Streams: 8})
		defer c.end()
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				select {
				case s := <-c.streams:
					go func() { _, _ = io.Copy(io.Discard, s) }()
				case <-c.server.CloseChan():
					return
				}
			}
		}()
		_, _ = c.Write(frames)
		_ = c.Close()
		<-done
	})
}

// BenchmarkUpload measures what the limits cost: a client sends frames of 32 KiB, as kubectl.
func BenchmarkUpload(b *testing.B) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer listener.Close()
	streams := make(chan httpstream.Stream, 1)
	go func() {
		conn, err := listener.Accept()
		if err == nil {
			NewServer(conn, bufio.NewReader(conn), "test", Limits{Streams: 8}, func(s httpstream.Stream) { streams <- s })
		}
	}()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	client, err := spdystream.NewConnection(conn, false)
	if err != nil {
		b.Fatal(err)
	}
	go client.Serve(func(*spdystream.Stream) {})
	stream, err := client.CreateStream(http.Header{}, nil, false)
	if err != nil {
		b.Fatal(err)
	}
	if err := stream.Wait(); err != nil {
		b.Fatal(err)
	}
	chunk := make([]byte, 32<<10)
	b.SetBytes(int64(len(chunk)))
	go func() {
		for range b.N {
			if _, err := stream.Write(chunk); err != nil {
				return
			}
		}
	}()
	received := <-streams
	for total := 0; total < b.N*len(chunk); {
		n, err := received.Read(chunk)
		if err != nil {
			b.Fatal(err)
		}
		total += n
	}
}

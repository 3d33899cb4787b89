package spdy

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/moby/spdystream"
	"github.com/moby/spdystream/spdy"
	"k8s.io/streaming/pkg/httpstream"
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

func newHostileClient(t testing.TB, maxStreams int) *hostileClient {
	t.Helper()
	client, conn := net.Pipe()
	c := &hostileClient{Conn: client, streams: make(chan httpstream.Stream, 64)}
	var err error
	c.server, err = NewServer(conn, bufio.NewReader(conn), "test", maxStreams, func(s httpstream.Stream) { c.streams <- s })
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, client) }() // the server's answers
	return c
}

func (c *hostileClient) end() {
	c.server.Abort()
	_ = c.Close()
}

// Streams that nothing reads hold a limited number of bytes, however large their frames are.
func TestUnreadStreamsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newHostileClient(t, 8)
		defer c.end()
		if _, err := c.Write(openStreams(t, http.Header{}, 1, 3, 5, 7, 9)); err != nil {
			t.Fatal(err)
		}
		accepted := 0
		go func() {
			// Each stream in turn, as much as is accepted.
			for {
				for id := uint32(1); id < 10; id += 2 {
					for frame := dataFrame(id, 0, make([]byte, 1<<20)); len(frame) > 0; {
						n, err := c.Write(frame[:min(512, len(frame))])
						if accepted += n; err != nil {
							return
						}
						frame = frame[n:]
					}
				}
			}
		}()
		synctest.Wait() // until the server reads no more
		if accepted < maxData || accepted > 1<<20+64<<10 {
			t.Errorf("the server holds %d bytes", accepted)
		}
	})
}

// Split frames arrive complete and in order, and end their stream once.
func TestSplitFramesArriveComplete(t *testing.T) {
	for _, size := range []int{0, 1, maxData - 1, maxData, maxData + 1, 3 * maxData, 1<<20 + 7} {
		c := newHostileClient(t, 8)
		sent := make([]byte, size)
		_, _ = rand.Read(sent)
		go func() {
			_, _ = c.Write(openStreams(t, http.Header{"x-name": {"v"}}, 1))
			_, _ = c.Write(dataFrame(1, 0, sent))
			_, _ = c.Write(control(frameSettings, make([]byte, 12))) // dropped
			_, _ = c.Write(dataFrame(1, flagFinish, sent))
		}()
		stream := <-c.streams
		got, err := io.ReadAll(stream)
		if err != nil || !bytes.Equal(got, append(bytes.Clone(sent), sent...)) || stream.Headers().Get("X-Name") != "v" {
			t.Errorf("%d bytes: got %d, %v, headers %v", 2*size, len(got), err, stream.Headers())
		}
		c.end()
	}
	// In any pieces.
	frame := dataFrame(1, flagFinish, make([]byte, 2*maxData+1))
	want, err := io.ReadAll(newFrameReader(bytes.NewReader(frame), true))
	if err != nil || len(want) != len(frame)+2*headerSize {
		t.Fatalf("%d bytes, %v", len(want), err)
	}
	got, err := io.ReadAll(iotest.OneByteReader(newFrameReader(iotest.OneByteReader(bytes.NewReader(frame)), true)))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, %v", len(got), err)
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
		c := newHostileClient(t, 3)
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
		c := newHostileClient(t, 8)
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
			_, _ = NewServer(conn, bufio.NewReader(conn), "test", 8, func(s httpstream.Stream) { streams <- s })
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

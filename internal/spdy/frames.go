package spdy

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
)

// The limits of a frame. The queues of spdystream keep up to maxQueued frames of a
// connection until their streams are read, so that a session holds at most maxQueued times
// maxData bytes (1 MiB), however large the frames are that the other side sends.
const (
	maxQueued = 256
	maxData   = 4 << 10
	// maxControl is the maximum payload of a control frame in bytes. Those of kubectl, the
	// kubelet and the runtimes have less than 200.
	maxControl = 4 << 10
	// maxHeaders and maxHeader limit the number of headers of a stream, and the bytes of a
	// name or a value: they are compressed in the frame.
	maxHeaders = 16
	maxHeader  = 1 << 10
)

// The types of control frames.
const (
	frameSynStream    = 1
	frameSynReply     = 2
	frameReset        = 3
	frameSettings     = 4
	framePing         = 6
	frameGoAway       = 7
	frameWindowUpdate = 9
)

const (
	headerSize = 8
	flagFinish = 1
)

// frameReader reads a connection frame by frame. It splits data frames into small ones,
// drops frames that change nothing, and fails at control frames that the other side does not
// send, or that have an invalid size: spdystream reads beyond their end.
type frameReader struct {
	in *bufio.Reader
	// server says that the other side is a client, which opens the streams. lastStream is
	// the ID of the last one.
	server     bool
	lastStream uint32
	// head is the rest of the header of the current frame, whose memory is buffer.
	head   []byte
	buffer [headerSize]byte
	// payload is the number of bytes that follow head in the current frame.
	payload int
	// data is the number of bytes of the data frame beyond the current part of it; stream
	// and flags are its own.
	data   int
	stream uint32
	flags  byte
	err    error
}

func newFrameReader(in io.Reader, server bool) *frameReader {
	return &frameReader{in: bufio.NewReader(in), server: server}
}

// Read implements io.Reader.
func (f *frameReader) Read(b []byte) (int, error) {
	for f.err == nil && len(f.head) == 0 && f.payload == 0 {
		f.err = f.next()
	}
	switch {
	case f.err != nil:
		return 0, f.err
	case len(f.head) > 0:
		n := copy(b, f.head)
		f.head = f.head[n:]
		return n, nil
	}
	n, err := f.in.Read(b[:min(len(b), f.payload)])
	f.payload -= n
	f.err = err
	return n, err
}

// next begins the next frame, or the next part of a data frame.
func (f *frameReader) next() error {
	if f.data > 0 {
		f.part()
		return nil
	}
	if _, err := io.ReadFull(f.in, f.buffer[:]); err != nil {
		return err
	}
	first, second := binary.BigEndian.Uint32(f.buffer[:]), binary.BigEndian.Uint32(f.buffer[4:])
	length := int(second & 0xffffff)
	if control := first>>31 == 1; !control {
		f.stream, f.flags, f.data = first, byte(second>>24), length
		f.part()
		return nil
	}
	kind, valid := first&0xffff, false
	switch kind {
	case frameSynStream:
		valid = f.server && length >= 10 && length <= maxControl && f.opensStream()
	case frameSynReply:
		valid = !f.server && length >= 4 && length <= maxControl
	case frameReset, frameGoAway:
		valid = length == 8
	case framePing:
		valid = length == 4
	case frameSettings, frameWindowUpdate:
		_, err := f.in.Discard(length)
		return err
	}
	if !valid {
		return fmt.Errorf("unexpected SPDY control frame of type %d with %d bytes", kind, length)
	}
	f.head, f.payload = f.buffer[:], length
	return nil
}

// opensStream reports whether the frame that follows opens a new stream of a client.
// spdystream starts a goroutine for each one that does not.
func (f *frameReader) opensStream() bool {
	id, err := f.in.Peek(4)
	if err != nil {
		return false
	}
	stream := binary.BigEndian.Uint32(id)
	if stream%2 != 1 || stream <= f.lastStream || stream>>31 == 1 {
		return false
	}
	f.lastStream = stream
	return true
}

// part begins the next part of a data frame. The last one has its flags.
func (f *frameReader) part() {
	size, flags := min(f.data, maxData), byte(0)
	if f.data -= size; f.data == 0 {
		flags = f.flags
	}
	binary.BigEndian.PutUint32(f.buffer[:], f.stream)
	binary.BigEndian.PutUint32(f.buffer[4:], uint32(flags)<<24|uint32(size))
	f.head, f.payload = f.buffer[:], size
}

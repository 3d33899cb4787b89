package spdy

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/moby/spdystream/spdy"
)

// The limits of a frame of the other side.
const (
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
	// statusCancel is the reason of a reset.
	statusCancel = 5
	// maxID is the largest stream ID.
	maxID = 1<<31 - 1
)

// frame is the beginning of a frame: the payload follows.
type frame struct {
	// kind is the type of a control frame, 0 for data.
	kind uint32
	// stream is the stream of a data frame.
	stream uint32
	flags  byte
	// length is the number of bytes of the payload.
	length int
}

// frameReader reads the frames of a connection.
type frameReader struct {
	in *bufio.Reader
	// head is the memory of the frame's header.
	head [headerSize]byte
	// syn is the payload of a frame that opens a stream, and headers decompresses it.
	syn     synFrame
	headers *spdy.Framer
}

// next reads the beginning of a frame. It fails at frames with another size than they have
// to have.
func (f *frameReader) next() (frame, error) {
	if _, err := io.ReadFull(f.in, f.head[:]); err != nil {
		return frame{}, err
	}
	first, second := binary.BigEndian.Uint32(f.head[:]), binary.BigEndian.Uint32(f.head[4:])
	next := frame{stream: first, flags: byte(second >> 24), length: int(second & 0xffffff)}
	if first>>31 == 0 {
		return next, nil
	}
	next.kind, next.stream = first&0xffff, 0
	valid := false
	switch next.kind {
	case frameSynStream:
		valid = next.length >= 10 && next.length <= maxControl
	case frameSynReply:
		valid = next.length >= 4 && next.length <= maxControl
	case frameReset, frameGoAway:
		valid = next.length == 8
	case framePing:
		valid = next.length == 4
	case frameSettings, frameWindowUpdate:
		valid = true // ignored
	}
	if !valid {
		return frame{}, fmt.Errorf("unexpected SPDY control frame of type %d with %d bytes", next.kind, next.length)
	}
	return next, nil
}

// number reads a number from a payload.
func (f *frameReader) number() (uint32, error) {
	_, err := io.ReadFull(f.in, f.head[:4])
	return binary.BigEndian.Uint32(f.head[:]), err
}

// open reads the payload of a frame that opens a stream.
func (f *frameReader) open(fr frame) (id uint32, headers http.Header, err error) {
	if f.headers == nil {
		f.headers, err = spdy.NewFramerWithOptions(io.Discard, &f.syn, spdy.WithMaxHeaderCount(maxHeaders),
			spdy.WithMaxHeaderFieldSize(maxHeader))
		if err != nil {
			return 0, nil, err
		}
	}
	f.syn = append(append(f.syn[:0], f.head[:]...), make([]byte, fr.length)...)
	if _, err := io.ReadFull(f.in, f.syn[headerSize:]); err != nil {
		return 0, nil, err
	}
	read, err := f.headers.ReadFrame()
	if err != nil {
		return 0, nil, err
	}
	syn, ok := read.(*spdy.SynStreamFrame)
	if !ok {
		return 0, nil, fmt.Errorf("unexpected SPDY frame %T", read)
	}
	return uint32(syn.StreamId), syn.Headers, nil
}

// synFrame is a frame in memory.
type synFrame []byte

func (s *synFrame) Read(b []byte) (int, error) {
	if len(*s) == 0 {
		return 0, io.EOF
	}
	n := copy(b, *s)
	*s = (*s)[n:]
	return n, nil
}

// appendData appends the beginning of a data frame.
func appendData(b []byte, stream uint32, flags byte, length int) []byte {
	b = binary.BigEndian.AppendUint32(b, stream)
	return binary.BigEndian.AppendUint32(b, uint32(flags)<<24|uint32(length))
}

// appendControl appends a control frame.
func appendControl(b []byte, kind uint16, payload ...byte) []byte {
	b = binary.BigEndian.AppendUint16(append(b, 0x80, 3), kind)
	return append(binary.BigEndian.AppendUint32(b, uint32(len(payload))), payload...)
}

// numbers are the payload of a control frame.
func numbers(all ...uint32) (payload []byte) {
	for _, n := range all {
		payload = binary.BigEndian.AppendUint32(payload, n)
	}
	return payload
}

// appendHeaders appends headers as the next part of the zlib stream of all headers of a
// connection; first reports that this is its begin. They are not compressed, because Go's
// compressor needs more than half a megabyte.
func appendHeaders(b []byte, first bool, headers http.Header) []byte {
	if first {
		b = append(b, 0x78, 0x01)
	}
	text := numbers(uint32(len(headers)))
	for name, values := range headers {
		for _, part := range []string{strings.ToLower(name), strings.Join(values, "\x00")} {
			text = append(binary.BigEndian.AppendUint32(text, uint32(len(part))), part...)
		}
	}
	for part := range slices.Chunk(text, 1<<16-1) {
		b = appendStored(b, part)
	}
	return appendStored(b, nil) // ends what is read at once
}

// appendStored appends a block of a zlib stream that is not compressed.
func appendStored(b, text []byte) []byte {
	size := uint16(len(text))
	b = binary.LittleEndian.AppendUint16(append(b, 0), size)
	return append(binary.LittleEndian.AppendUint16(b, ^size), text...)
}

package cluster

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// maxItem is the maximum size in bytes of one object in a list: twice what an API server
// accepts by default.
const maxItem = 6 << 20

// protobufMagic is how an answer in protobuf begins. A runtime.Unknown follows.
var protobufMagic = []byte("k8s\x00")

// The fields of a message, as in generated.proto.
const (
	unknownRaw   = 2
	listMetadata = 1
	listItems    = 2
)

// objectList is a list whose objects are on the heap one by one, so that the memory of each
// is released with it.
type objectList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []runtime.Object
}

// DeepCopyObject implements runtime.Object.
func (l *objectList) DeepCopyObject() runtime.Object {
	out := &objectList{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy()}
	for _, o := range l.Items {
		out.Items = append(out.Items, o.DeepCopyObject())
	}
	return out
}

// decodeList reads a list object by object, and passes each to add as soon as it is decoded:
// of a list that is larger than the memory that it may need, only what add keeps is ever
// in memory. create returns an empty object.
func decodeList(from io.Reader, create func() runtime.Object, add func(runtime.Object)) (meta metav1.ListMeta, err error) {
	r := bufio.NewReaderSize(from, 64<<10)
	magic, err := r.Peek(len(protobufMagic))
	if err != nil {
		return meta, fmt.Errorf("failed to read the list: %w", err)
	}
	if bytes.Equal(magic, protobufMagic) {
		_, _ = r.Discard(len(protobufMagic))
		err = decodeProtobufList(r, create, add, &meta)
	} else {
		err = decodeJSONList(r, create, add, &meta)
	}
	if err != nil {
		return meta, fmt.Errorf("failed to read the list: %w", err)
	}
	return meta, nil
}

// unmarshaler is what generated types of Kubernetes implement.
type unmarshaler interface{ Unmarshal([]byte) error }

func decodeProtobufList(r *bufio.Reader, create func() runtime.Object, add func(runtime.Object), meta *metav1.ListMeta) error {
	return eachField(r, -1, func(field uint64, size int64) error {
		if field != unknownRaw {
			return skip(r, size)
		}
		return eachField(r, size, func(field uint64, size int64) error {
			var into unmarshaler
			var item runtime.Object
			switch field {
			case listMetadata:
				into = meta
			case listItems:
				item = create()
				var ok bool
				if into, ok = item.(unmarshaler); !ok {
					return fmt.Errorf("%T has no protobuf form", item)
				}
			default:
				return skip(r, size)
			}
			if size > maxItem {
				return fmt.Errorf("an object of %d bytes is larger than %d", size, maxItem)
			}
			text := make([]byte, size)
			if _, err := io.ReadFull(r, text); err != nil {
				return err
			}
			if err := into.Unmarshal(text); err != nil {
				return err
			}
			if item != nil {
				add(item)
			}
			return nil
		})
	})
}

// eachField calls each for the fields of a message of a size in bytes; -1 is the rest of the
// input. All fields of the messages that are read have a length; each has to read as much.
func eachField(r *bufio.Reader, size int64, each func(field uint64, size int64) error) error {
	for size != 0 {
		tag, n, err := uvarint(r)
		if size < 0 && errors.Is(err, io.EOF) && n == 0 {
			return nil
		}
		if err != nil {
			return err
		}
		const lengthDelimited = 2
		if tag&7 != lengthDelimited {
			return fmt.Errorf("unexpected protobuf wire type %d", tag&7)
		}
		length, m, err := uvarint(r)
		if err != nil {
			return err
		}
		if size > 0 {
			if size -= int64(n + m); length > uint64(max(size, 0)) {
				return io.ErrUnexpectedEOF
			}
			size -= int64(length)
		} else if length > 1<<40 {
			return io.ErrUnexpectedEOF
		}
		if err := each(tag>>3, int64(length)); err != nil {
			return err
		}
	}
	return nil
}

// uvarint reads a number and returns how many bytes it has.
func uvarint(r *bufio.Reader) (value uint64, n int, err error) {
	counted := &byteCounter{r: r}
	value, err = binary.ReadUvarint(counted)
	return value, counted.n, err
}

type byteCounter struct {
	r *bufio.Reader
	n int
}

func (c *byteCounter) ReadByte() (byte, error) {
	b, err := c.r.ReadByte()
	if err == nil {
		c.n++
	}
	return b, err
}

func skip(r *bufio.Reader, size int64) error {
	_, err := io.CopyN(io.Discard, r, size)
	return err
}

func decodeJSONList(r io.Reader, create func() runtime.Object, add func(runtime.Object), meta *metav1.ListMeta) error {
	d := json.NewDecoder(r)
	if err := expect(d, '{'); err != nil {
		return err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		switch name {
		case "metadata":
			err = d.Decode(meta)
		case "items":
			err = decodeJSONItems(d, create, add)
		default:
			var ignored json.RawMessage
			err = d.Decode(&ignored)
		}
		if err != nil {
			return err
		}
	}
	return expect(d, '}')
}

func decodeJSONItems(d *json.Decoder, create func() runtime.Object, add func(runtime.Object)) error {
	begin, err := d.Token()
	if begin == nil || err != nil { // null
		return err
	}
	for d.More() {
		item := create()
		if err := d.Decode(item); err != nil {
			return err
		}
		add(item)
	}
	return expect(d, ']')
}

func expect(d *json.Decoder, want json.Delim) error {
	if got, err := d.Token(); err != nil || got != want {
		return errors.Join(err, fmt.Errorf("expected %v, found %v", want, got))
	}
	return nil
}

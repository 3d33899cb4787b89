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

// protobufMagic is how a response in protobuf begins. A runtime.Unknown follows.
var protobufMagic = []byte("k8s\x00")

// The fields of a message, as in generated.proto.
const (
	unknownTypeMeta = 1
	unknownRaw      = 2
	listMetadata    = 1
	listItems       = 2
)

// kindList is the kind of a list of any kind.
const kindList = "List"

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

// decodeList reads a list of a kind object by object, and passes each to add as soon as it is
// decoded: of a list that is larger than the memory that it may need, only what add keeps is
// ever in memory. create returns an empty object. a response of another kind is an error, and
// so is a list without a version: neither reports that there are no objects.
func decodeList(from io.Reader, kind string, create func() runtime.Object,
	add func(runtime.Object)) (meta metav1.ListMeta, err error) {
	d := listDecoder{r: bufio.NewReaderSize(from, 64<<10), kind: kind, create: create, add: add, meta: &meta}
	magic, err := d.r.Peek(len(protobufMagic))
	if err != nil {
		return meta, fmt.Errorf("failed to read the list: %w", err)
	}
	if bytes.Equal(magic, protobufMagic) {
		_, _ = d.r.Discard(len(protobufMagic))
		err = d.protobuf()
	} else {
		err = d.json()
	}
	if err == nil && meta.ResourceVersion == "" {
		err = errors.New("it has no resource version")
	}
	if err != nil {
		return meta, fmt.Errorf("failed to read the list: %w", err)
	}
	return meta, nil
}

// listDecoder reads one list.
type listDecoder struct {
	r      *bufio.Reader
	kind   string
	create func() runtime.Object
	add    func(runtime.Object)
	meta   *metav1.ListMeta
}

// check returns an error if the response has not the kind of the list.
func (d *listDecoder) check(kind string) error {
	if kind != d.kind && kind != kindList {
		return fmt.Errorf("the API server sent the kind %q instead of %s", kind, d.kind)
	}
	return nil
}

// unmarshaler is what generated types of Kubernetes implement.
type unmarshaler interface{ Unmarshal([]byte) error }

func (d *listDecoder) protobuf() error {
	kind, complete := runtime.TypeMeta{}, false
	err := eachField(d.r, -1, func(field uint64, size int64) error {
		switch field {
		case unknownTypeMeta:
			return d.message(size, &kind)
		case unknownRaw: // after the kind
			complete = true
			if err := d.check(kind.Kind); err != nil {
				return err
			}
			return eachField(d.r, size, d.protobufField)
		}
		return skip(d.r, size)
	})
	if err == nil && !complete {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// protobufField reads a field of the list.
func (d *listDecoder) protobufField(field uint64, size int64) error {
	switch field {
	case listMetadata:
		return d.message(size, d.meta)
	case listItems:
		item := d.create()
		into, ok := item.(unmarshaler)
		if !ok {
			return fmt.Errorf("%T has no protobuf form", item)
		}
		if err := d.message(size, into); err != nil {
			return err
		}
		d.add(item)
		return nil
	}
	return skip(d.r, size)
}

// message reads a message of a size in bytes.
func (d *listDecoder) message(size int64, into unmarshaler) error {
	if size > maxItem {
		return fmt.Errorf("an object of %d bytes is larger than %d", size, maxItem)
	}
	text := make([]byte, size)
	if _, err := io.ReadFull(d.r, text); err != nil {
		return err
	}
	return into.Unmarshal(text)
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

func (d *listDecoder) json() error {
	text, kind := json.NewDecoder(d.r), ""
	if err := expect(text, '{'); err != nil {
		return err
	}
	for text.More() {
		name, err := text.Token()
		if err != nil {
			return err
		}
		switch name {
		case "kind":
			err = text.Decode(&kind)
		case "metadata":
			err = text.Decode(d.meta)
		case "items":
			err = d.jsonItems(text)
		default:
			var ignored json.RawMessage
			err = text.Decode(&ignored)
		}
		if err != nil {
			return err
		}
	}
	if err := expect(text, '}'); err != nil {
		return err
	}
	return d.check(kind)
}

func (d *listDecoder) jsonItems(text *json.Decoder) error {
	begin, err := text.Token()
	if begin == nil || err != nil { // null
		return err
	}
	for text.More() {
		item := d.create()
		if err := text.Decode(item); err != nil {
			return err
		}
		d.add(item)
	}
	return expect(text, ']')
}

func expect(d *json.Decoder, want json.Delim) error {
	if got, err := d.Token(); err != nil || got != want {
		return errors.Join(err, fmt.Errorf("expected %v, found %v", want, got))
	}
	return nil
}

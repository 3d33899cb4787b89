package csi

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// message is a request or a response of the API.
type message interface {
	// encode returns the message in the wire format of protobuf; decode reads one.
	encode() []byte
	decode(data []byte) error
}

// codec encodes messages for gRPC.
type codec struct{}

func (codec) Name() string { return "proto" }

func (codec) Marshal(v any) ([]byte, error) {
	m, ok := v.(message)
	if !ok {
		return nil, fmt.Errorf("%T is no message of CSI", v)
	}
	return m.encode(), nil
}

func (codec) Unmarshal(data []byte, v any) error {
	m, ok := v.(message)
	if !ok {
		return fmt.Errorf("%T is no message of CSI", v)
	}
	return m.decode(data)
}

// fields appends fields to an encoded message. Zero values are left out, as protobuf does.
type fields []byte

func (f *fields) bytes(number protowire.Number, value []byte) {
	*f = protowire.AppendTag(*f, number, protowire.BytesType)
	*f = protowire.AppendBytes(*f, value)
}

func (f *fields) text(number protowire.Number, value string) {
	if value != "" {
		f.bytes(number, []byte(value))
	}
}

func (f *fields) number(number protowire.Number, value uint64) {
	if value != 0 {
		*f = protowire.AppendTag(*f, number, protowire.VarintType)
		*f = protowire.AppendVarint(*f, value)
	}
}

func (f *fields) boolean(number protowire.Number, value bool) {
	f.number(number, protowire.EncodeBool(value))
}

func (f *fields) texts(number protowire.Number, values map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(values)) {
		var entry fields
		entry.text(1, key)
		entry.text(2, values[key])
		f.bytes(number, entry)
	}
}

var errMalformed = errors.New("the answer of the CSI driver is malformed")

// decodeFields calls take for each field of a message. value is that of a number, data the content
// of any other field that has a length. Fields of other types are skipped.
func decodeFields(message []byte, visit func(number protowire.Number, value uint64, data []byte) error) error {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return errMalformed
		}
		message = message[n:]
		var value uint64
		var data []byte
		switch kind {
		case protowire.VarintType:
			value, n = protowire.ConsumeVarint(message)
		case protowire.BytesType:
			data, n = protowire.ConsumeBytes(message)
		default:
			n = protowire.ConsumeFieldValue(number, kind, message)
		}
		if n < 0 {
			return errMalformed
		}
		message = message[n:]
		if err := visit(number, value, data); err != nil {
			return err
		}
	}
	return nil
}

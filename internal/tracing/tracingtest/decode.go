package tracingtest

import (
	"encoding/binary"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// Span is a span as it was received.
type Span struct {
	TraceID, ID, Parent, Name string
	// Kind is 1 for an internal operation and 3 for a call.
	Kind       uint64
	Start, End uint64
	Attributes map[string]string
	// Failed and Message are the status.
	Failed  bool
	Message string
}

// field is a field of a message: text or a number.
type field struct {
	number protowire.Number
	text   []byte
	value  uint64
}

func fields(message []byte) (all []field, err error) {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		message = message[n:]
		f := field{number: number}
		switch kind {
		case protowire.BytesType:
			f.text, n = protowire.ConsumeBytes(message)
		case protowire.VarintType:
			f.value, n = protowire.ConsumeVarint(message)
		case protowire.Fixed64Type:
			if n = 8; len(message) < n {
				return nil, fmt.Errorf("field %d is cut short", number)
			}
			f.value = binary.LittleEndian.Uint64(message)
		default:
			return nil, fmt.Errorf("field %d has the type %d", number, kind)
		}
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		message = message[n:]
		all = append(all, f)
	}
	return all, nil
}

// below returns the messages at a path of field numbers.
func below(message []byte, path ...protowire.Number) ([][]byte, error) {
	if len(path) == 0 {
		return [][]byte{message}, nil
	}
	all, err := fields(message)
	if err != nil {
		return nil, err
	}
	var found [][]byte
	for _, f := range all {
		if f.number != path[0] {
			continue
		}
		more, err := below(f.text, path[1:]...)
		if err != nil {
			return nil, err
		}
		found = append(found, more...)
	}
	return found, nil
}

// decode returns the spans of an ExportTraceServiceRequest.
func decode(request []byte) (spans []Span, err error) {
	messages, err := below(request, 1, 2, 2) // resource_spans, scope_spans, spans
	for _, message := range messages {
		all, spanErr := fields(message)
		if spanErr != nil {
			return nil, spanErr
		}
		s := Span{Attributes: map[string]string{}}
		for _, f := range all {
			switch f.number {
			case 1:
				s.TraceID = string(f.text)
			case 2:
				s.ID = string(f.text)
			case 4:
				s.Parent = string(f.text)
			case 5:
				s.Name = string(f.text)
			case 6:
				s.Kind = f.value
			case 7:
				s.Start = f.value
			case 8:
				s.End = f.value
			case 9:
				key, err := below(f.text, 1)
				value, valueErr := below(f.text, 2, 1)
				if err != nil || valueErr != nil || len(key) != 1 || len(value) != 1 {
					return nil, fmt.Errorf("attribute %q: %v, %v", f.text, err, valueErr)
				}
				s.Attributes[string(key[0])] = string(value[0])
			case 15:
				status, err := fields(f.text)
				if err != nil {
					return nil, err
				}
				for _, f := range status {
					s.Failed = s.Failed || f.number == 3 && f.value == 2
					if f.number == 2 {
						s.Message = string(f.text)
					}
				}
			}
		}
		spans = append(spans, s)
	}
	return spans, err
}

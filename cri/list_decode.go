package cri

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	encodingproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// The fields of CRI's messages that a list looks at each time; of what is new
// the rest is decoded once. Their numbers are part of CRI v1.
const (
	fieldItems = 1 // of both responses

	fieldSandboxID      = 1
	fieldSandboxState   = 3
	fieldSandboxCreated = 4

	fieldContainerID      = 1
	fieldContainerState   = 6
	fieldContainerCreated = 7
)

// scratch is what one list shows before it is applied; kept for the next one.
type scratch struct {
	inventory  *inventory
	sandboxes  []sandboxItem
	containers []containerItem
}

type sandboxItem struct {
	entry *inventorySandbox
	state int32
}

type containerItem struct {
	entry *inventoryContainer
	state int32
}

// sandboxItems and containerItems are a scratch as the target of a call.
type (
	sandboxItems   scratch
	containerItems scratch
)

// release gives the room back, holding on to nothing that was listed.
func (s *scratch) release() {
	clear(s.sandboxes)
	clear(s.containers)
	s.sandboxes, s.containers = s.sandboxes[:0], s.containers[:0]
	s.inventory.scratch.Put(s)
}

// listCodec is the usual codec, but for the two lists it reads them its way.
var listCodec = grpc.ForceCodecV2(wireCodec{encoding.GetCodecV2(encodingproto.Name)})

type wireCodec struct{ encoding.CodecV2 }

func (c wireCodec) Unmarshal(data mem.BufferSlice, target any) error {
	into, ok := target.(interface{ unmarshal(response []byte) error })
	if !ok {
		return c.CodecV2.Unmarshal(data, target)
	}
	whole := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer whole.Free()
	return into.unmarshal(whole.ReadOnlyData())
}

func (s *sandboxItems) unmarshal(response []byte) error {
	s.inventory.mu.Lock()
	defer s.inventory.mu.Unlock()
	s.sandboxes = s.sandboxes[:0] // a call that is repeated starts again
	return eachItem(response, func(item []byte) error {
		f, err := scan(item, fieldSandboxID, fieldSandboxState, fieldSandboxCreated)
		if err != nil {
			return err
		}
		seen := s.inventory.sandboxes[string(f.id)]
		if seen == nil || seen.created != f.created {
			var whole runtimeapi.PodSandbox
			if err := proto.Unmarshal(item, &whole); err != nil {
				return err
			}
			if seen = s.inventory.newSandbox(&whole); seen == nil {
				return nil
			}
		}
		s.sandboxes = append(s.sandboxes, sandboxItem{seen, f.state})
		return nil
	})
}

func (s *containerItems) unmarshal(response []byte) error {
	s.inventory.mu.Lock()
	defer s.inventory.mu.Unlock()
	s.containers = s.containers[:0]
	return eachItem(response, func(item []byte) error {
		f, err := scan(item, fieldContainerID, fieldContainerState, fieldContainerCreated)
		if err != nil {
			return err
		}
		seen := s.inventory.containers[string(f.id)]
		if seen == nil || seen.created != f.created {
			var whole runtimeapi.Container
			if err := proto.Unmarshal(item, &whole); err != nil {
				return err
			}
			if seen = s.inventory.newContainer(&whole); seen == nil {
				return nil
			}
		}
		s.containers = append(s.containers, containerItem{seen, f.state})
		return nil
	})
}

// eachItem calls f for each item of a list's response.
func eachItem(response []byte, f func(item []byte) error) error {
	for len(response) > 0 {
		number, kind, n := protowire.ConsumeTag(response)
		if n < 0 {
			return protowire.ParseError(n)
		}
		response = response[n:]
		if number != fieldItems || kind != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(number, kind, response); n < 0 {
				return protowire.ParseError(n)
			}
			response = response[n:]
			continue
		}
		item, n := protowire.ConsumeBytes(response)
		if n < 0 {
			return protowire.ParseError(n)
		}
		if err := f(item); err != nil {
			return err
		}
		response = response[n:]
	}
	return nil
}

// scanned is what may change of an item, and by what it is known.
type scanned struct {
	id      []byte
	state   int32
	created int64
}

func scan(item []byte, id, state, created protowire.Number) (scanned, error) {
	var f scanned
	for len(item) > 0 {
		number, kind, n := protowire.ConsumeTag(item)
		if n < 0 {
			return f, protowire.ParseError(n)
		}
		item = item[n:]
		switch {
		case number == id && kind == protowire.BytesType:
			f.id, n = protowire.ConsumeBytes(item)
		case (number == state || number == created) && kind == protowire.VarintType:
			var v uint64
			v, n = protowire.ConsumeVarint(item)
			if number == state {
				f.state = int32(v)
			} else {
				f.created = int64(v)
			}
		default:
			n = protowire.ConsumeFieldValue(number, kind, item)
		}
		if n < 0 {
			return f, protowire.ParseError(n)
		}
		item = item[n:]
	}
	return f, nil
}

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

// This file decodes the two list responses by hand: it reads only the ID, state
// and creation time of each item, and decodes an item in full, with the generated
// types of k8s.io/cri-api, when it is not in the inventory yet.
//
// The generated types alone would be simpler, and they are what to use unless a
// figure argues against it. Here it does, because a node at rest relists every
// second or every ten. BenchmarkListDecode, an unchanged list with two
// containers a pod, medians of five runs on one AMD EPYC core:
//
//	pods   decoder      ns/op       B/op       allocs/op
//	 110   this file        56588        80           1
//	 110   generated      1447940    805332       24440
//	1000   this file       591150        80           1
//	1000   generated     20189363   7326532      222028
//
// The host was shared, so that only the ratio (24 to 34, also in a second series)
// and the allocations can be reproduced. The whole daemon at rest on the fake
// runtime (test/bench -only '^fake$' -fake 110, a relist each second, one run of
// 20 s each, the second on a busier host) used 0.136 % of a core with this file and
// 0.37 % with the generated types; the target for the whole daemon is 0.5 %.
// Comparing a response with the bytes of the previous one is no alternative:
// runtimes encode maps and lists in random order.
//
// TestListEqualsPlainList, FuzzListWire and TestFieldNumbers compare this decoder
// with the generated one.

// The numbers of the fields that each list reads. They are part of CRI v1.
const (
	fieldItems = 1 // of both responses

	fieldSandboxID      = 1
	fieldSandboxState   = 3
	fieldSandboxCreated = 4

	fieldContainerID      = 1
	fieldContainerState   = 6
	fieldContainerCreated = 7
)

// scratch holds the decoded items of one list until they are applied. It is
// reused by the next list.
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

// sandboxItems and containerItems are a scratch as the target of a gRPC call.
type (
	sandboxItems   scratch
	containerItems scratch
)

// release returns the scratch to the pool, without references to listed objects.
func (s *scratch) release() {
	clear(s.sandboxes)
	clear(s.containers)
	s.sandboxes, s.containers = s.sandboxes[:0], s.containers[:0]
	s.inventory.scratch.Put(s)
}

// listCodec is the standard protobuf codec, except that the two list responses
// decode themselves.
var listCodec = grpc.ForceCodecV2(wireCodec{encoding.GetCodecV2(encodingproto.Name)})

type wireCodec struct{ encoding.CodecV2 }

func (c wireCodec) Unmarshal(data mem.BufferSlice, target any) error {
	into, ok := target.(interface{ unmarshal(response []byte) error })
	if !ok {
		return c.CodecV2.Unmarshal(data, target)
	}
	buffer := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buffer.Free()
	return into.unmarshal(buffer.ReadOnlyData())
}

func (s *sandboxItems) unmarshal(response []byte) error {
	s.inventory.mu.Lock()
	defer s.inventory.mu.Unlock()
	s.sandboxes = s.sandboxes[:0] // a repeated call starts over
	return eachItem(response, func(item []byte) error {
		f, err := scan(item, fieldSandboxID, fieldSandboxState, fieldSandboxCreated)
		if err != nil {
			return err
		}
		seen := s.inventory.sandboxes[string(f.id)]
		if seen == nil || seen.created != f.created {
			var sandbox runtimeapi.PodSandbox
			if err := proto.Unmarshal(item, &sandbox); err != nil {
				return err
			}
			if seen = s.inventory.newSandbox(&sandbox); seen == nil {
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
			var container runtimeapi.Container
			if err := proto.Unmarshal(item, &container); err != nil {
				return err
			}
			if seen = s.inventory.newContainer(&container); seen == nil {
				return nil
			}
		}
		s.containers = append(s.containers, containerItem{seen, f.state})
		return nil
	})
}

// eachItem calls f for each item of a list's response.
func eachItem(response []byte, f func(item []byte) error) error {
	return eachField(response, func(number protowire.Number, value []byte) error {
		if number != fieldItems {
			return nil
		}
		return f(value)
	})
}

// scanned holds the fields that identify an item and those that can change.
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

package cri

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// FuzzListWire decodes arbitrary responses of a runtime with List's decoder and
// with the generated types, and compares valid results: first with an empty
// inventory, then with a filled one.
func FuzzListWire(f *testing.F) {
	for _, m := range []proto.Message{
		&runtimeapi.ListPodSandboxResponse{},
		&runtimeapi.ListPodSandboxResponse{Items: []*runtimeapi.PodSandbox{
			{Id: "a", State: 1, CreatedAt: 5, Metadata: &runtimeapi.PodSandboxMetadata{Uid: "u"}},
			{Id: "b", CreatedAt: -1, Labels: map[string]string{LabelPodUID: "v"}, Annotations: map[string]string{"k": "v"}},
			{Id: "b", State: 1},
		}},
		&runtimeapi.ListContainersResponse{
			Containers: []*runtimeapi.Container{{Id: "c", State: 3, Labels: map[string]string{LabelPodUID: "v"}}}},
	} {
		data, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var plain runtimeapi.ListPodSandboxResponse
		plainErr := proto.Unmarshal(data, &plain)
		k := newInventory("mine")
		for round := range 2 {
			s := &scratch{inventory: k}
			err := (*sandboxItems)(s).unmarshal(data)
			if plainErr != nil {
				return // this decoder accepts field numbers beyond the valid range
			}
			if err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
			n := 0
			for _, item := range plain.Items {
				if round == 0 && identify(item).uid == "" {
					continue
				}
				if round == 1 {
					if seen := k.sandboxes[item.Id]; (seen == nil || seen.created != item.CreatedAt) && identify(item).uid == "" {
						continue
					}
				}
				if n >= len(s.sandboxes) {
					t.Fatalf("round %d: %d items are missing", round, len(plain.Items)-n)
				}
				got := s.sandboxes[n]
				if got.entry.ID != item.Id || got.state != int32(item.State) || got.entry.created != item.CreatedAt {
					t.Fatalf("round %d: %+v, generated types: %+v", round, got.entry, item)
				}
				n++
			}
			if n != len(s.sandboxes) {
				t.Fatalf("round %d: %d items, generated types: %d", round, len(s.sandboxes), n)
			}
			k.apply(s, time.Time{})
		}
		_ = (*containerItems)(&scratch{inventory: k}).unmarshal(data) // must not panic
	})
}

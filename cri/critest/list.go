package critest

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// listed is a sandbox or container in a list, encoded once at each change: a list
// of a thousand pods each second is then nearly free, and a benchmark in this
// process measures the client.
type listed struct {
	id, sandbox string
	state       int32
	labels      map[string]string
	wire        []byte // a whole item of the list's response
}

// fieldItems is the number of the items in both lists' responses.
const fieldItems = 1

func item(m proto.Message) []byte {
	// What came off the wire can be put there again.
	data, err := proto.Marshal(m)
	if err != nil {
		panic(err)
	}
	return protowire.AppendBytes(protowire.AppendTag(nil, fieldItems, protowire.BytesType), data)
}

// staleLists makes lists outdated.
type staleLists struct {
	// sandboxes and containers are what stale lists show.
	sandboxes, containers []*listed
	// stale counts the lists of each kind that are still stale; negative is
	// until they are fresh again.
	staleSandboxes, staleContainers int
	kept                            []*listed // room for the next list
}

// StaleLists makes the next n lists of sandboxes, and the next n of containers,
// show the present state, whatever changes until then; n < 0 does so for all of
// them until FreshLists.
func (f *Fake) StaleLists(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lists = staleLists{
		sandboxes:       slices.Collect(f.listedSandboxes()),
		containers:      slices.Collect(f.listedContainers()),
		staleSandboxes:  n,
		staleContainers: n,
	}
}

// FreshLists ends StaleLists.
func (f *Fake) FreshLists() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lists = staleLists{}
}

// The lock is held while these are walked.

func (f *Fake) listedSandboxes() iter.Seq[*listed] {
	return func(yield func(*listed) bool) {
		for b := range maps.Values(f.sandboxes) {
			if !yield(b.listed) {
				return
			}
		}
	}
}

func (f *Fake) listedContainers() iter.Seq[*listed] {
	return func(yield func(*listed) bool) {
		for c := range maps.Values(f.containers) {
			if !yield(c.listed) {
				return
			}
		}
	}
}

func (s *runtimeServer) ListPodSandbox(_ context.Context,
	r *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
	f := s.f
	f.mu.Lock()
	defer f.mu.Unlock()
	all := f.listedSandboxes()
	if f.lists.staleSandboxes != 0 {
		f.lists.staleSandboxes--
		all = slices.Values(f.lists.sandboxes)
	}
	filter := r.GetFilter()
	response := &runtimeapi.ListPodSandboxResponse{}
	// Encoded items are put in as fields that protobuf does not look into.
	response.ProtoReflect().SetUnknown(f.lists.join(all, func(b *listed) bool {
		return strings.HasPrefix(b.id, filter.GetId()) &&
			(filter.GetState() == nil || int32(filter.State.State) == b.state) &&
			selects(filter.GetLabelSelector(), b.labels)
	}))
	return response, nil
}

func (s *runtimeServer) ListContainers(_ context.Context,
	r *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error) {
	f := s.f
	f.mu.Lock()
	defer f.mu.Unlock()
	all := f.listedContainers()
	if f.lists.staleContainers != 0 {
		f.lists.staleContainers--
		all = slices.Values(f.lists.containers)
	}
	filter := r.GetFilter()
	response := &runtimeapi.ListContainersResponse{}
	response.ProtoReflect().SetUnknown(f.lists.join(all, func(c *listed) bool {
		return strings.HasPrefix(c.id, filter.GetId()) &&
			strings.HasPrefix(c.sandbox, filter.GetPodSandboxId()) &&
			(filter.GetState() == nil || int32(filter.State.State) == c.state) &&
			selects(filter.GetLabelSelector(), c.labels)
	}))
	return response, nil
}

// join is the items that are kept, in no order, as with containerd.
func (l *staleLists) join(all iter.Seq[*listed], keep func(*listed) bool) []byte {
	l.kept = l.kept[:0]
	size := 0
	for item := range all {
		if keep(item) {
			l.kept = append(l.kept, item)
			size += len(item.wire)
		}
	}
	joined := make([]byte, 0, size)
	for _, item := range l.kept {
		joined = append(joined, item.wire...)
	}
	return joined
}

func selects(selector, labels map[string]string) bool {
	for k, v := range selector {
		if got, ok := labels[k]; !ok || got != v {
			return false
		}
	}
	return true
}

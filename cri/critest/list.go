package critest

import (
	"context"
	"slices"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// listing makes lists lie.
type listing struct {
	// sandboxes and containers are what stale lists show, nil if none do.
	sandboxes  []*runtimeapi.PodSandbox
	containers []*runtimeapi.Container
	// stale counts the lists of each kind that are still stale; negative is
	// until they are fresh again.
	staleSandboxes, staleContainers int
}

// StaleLists makes the next n lists of sandboxes, and the next n of
// containers, show what is there now, whatever happens until then; n < 0
// makes all of them do so until FreshLists.
func (f *Fake) StaleLists(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lists = listing{staleSandboxes: n, staleContainers: n}
	for _, b := range f.sandboxes {
		f.lists.sandboxes = append(f.lists.sandboxes, b.listed)
	}
	for _, c := range f.containers {
		f.lists.containers = append(f.lists.containers, c.listed)
	}
}

// FreshLists ends StaleLists.
func (f *Fake) FreshLists() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lists = listing{}
}

func (s *runtimeServer) ListPodSandbox(_ context.Context, r *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
	f := s.f
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lists.staleSandboxes != 0 {
		f.lists.staleSandboxes--
		return &runtimeapi.ListPodSandboxResponse{Items: keepSandboxes(slices.Values(f.lists.sandboxes), r.Filter, 0)}, nil
	}
	all := func(yield func(*runtimeapi.PodSandbox) bool) {
		for _, b := range f.sandboxes {
			if !yield(b.listed) {
				return
			}
		}
	}
	return &runtimeapi.ListPodSandboxResponse{Items: keepSandboxes(all, r.Filter, len(f.sandboxes))}, nil
}

func (s *runtimeServer) ListContainers(_ context.Context, r *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error) {
	f := s.f
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lists.staleContainers != 0 {
		f.lists.staleContainers--
		return &runtimeapi.ListContainersResponse{Containers: keepContainers(slices.Values(f.lists.containers), r.Filter, 0)}, nil
	}
	all := func(yield func(*runtimeapi.Container) bool) {
		for _, c := range f.containers {
			if !yield(c.listed) {
				return
			}
		}
	}
	return &runtimeapi.ListContainersResponse{Containers: keepContainers(all, r.Filter, len(f.containers))}, nil
}

// keepSandboxes is what a filter lets through, in no order, as with
// containerd. An ID may be cut short.
func keepSandboxes(all func(func(*runtimeapi.PodSandbox) bool), filter *runtimeapi.PodSandboxFilter, room int) []*runtimeapi.PodSandbox {
	if filter != nil {
		room = 0
	}
	kept := make([]*runtimeapi.PodSandbox, 0, room)
	for b := range all {
		switch {
		case !strings.HasPrefix(b.Id, filter.GetId()):
		case filter.GetState() != nil && filter.State.State != b.State:
		case !selects(filter.GetLabelSelector(), b.Labels):
		default:
			kept = append(kept, b)
		}
	}
	return kept
}

func keepContainers(all func(func(*runtimeapi.Container) bool), filter *runtimeapi.ContainerFilter, room int) []*runtimeapi.Container {
	if filter != nil {
		room = 0
	}
	kept := make([]*runtimeapi.Container, 0, room)
	for c := range all {
		switch {
		case !strings.HasPrefix(c.Id, filter.GetId()):
		case !strings.HasPrefix(c.PodSandboxId, filter.GetPodSandboxId()):
		case filter.GetState() != nil && filter.State.State != c.State:
		case !selects(filter.GetLabelSelector(), c.Labels):
		default:
			kept = append(kept, c)
		}
	}
	return kept
}

func selects(selector, labels map[string]string) bool {
	for k, v := range selector {
		if got, ok := labels[k]; !ok || got != v {
			return false
		}
	}
	return true
}

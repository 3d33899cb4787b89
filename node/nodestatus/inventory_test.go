package nodestatus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
)

type fakeRuntime struct {
	mu       sync.Mutex
	images   []Image
	features Features
	err      error
}

func (r *fakeRuntime) Features(context.Context) (Features, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.features, r.err
}

func (r *fakeRuntime) Images(context.Context) ([]Image, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.images, r.err
}

func (r *fakeRuntime) set(features Features, images []Image, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.features, r.images, r.err = features, images, err
}

func TestInventory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		yes, no := true, false
		rt := &fakeRuntime{features: Features{
			SupplementalGroupsPolicy: &yes,
			Handlers: []v1.NodeRuntimeHandler{
				{Name: "runc", Features: &v1.NodeRuntimeHandlerFeatures{RecursiveReadOnlyMounts: &no, UserNamespaces: &yes}},
				{Features: &v1.NodeRuntimeHandlerFeatures{RecursiveReadOnlyMounts: &yes, UserNamespaces: &no}},
			},
		}}
		for n := range 60 {
			rt.images = append(rt.images, Image{Tags: []string{fmt.Sprintf("tag:%d", n)}, Size: uint64(n)})
		}
		rt.images[7] = Image{Size: 1000, Tags: strings.Split("a b c d e f", " "), Digests: []string{"sha256:x"}}
		rt.images[8] = Image{Size: 2000}
		i := NewInventory(rt, 50, slog.New(slog.DiscardHandler))
		if h := i.Current(); h.Images != nil || h.Features != nil {
			t.Errorf("before a look: %+v", h)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- i.Run(ctx) }()
		synctest.Wait()
		h := i.Current()
		if len(h.Images) != 50 || h.Images[0].SizeBytes != 1000 || h.Images[1].SizeBytes != 59 ||
			h.Images[49].SizeBytes != 11 {
			t.Errorf("images %+v", h.Images)
		}
		if got := strings.Join(h.Images[0].Names, " "); got != "sha256:x a b c d" {
			t.Errorf("names %s", got)
		}
		if l := h.Handlers; len(l) != 2 || l[0].Name != "" || !*l[0].Features.RecursiveReadOnlyMounts ||
			*l[0].Features.UserNamespaces || l[1].Name != "runc" || !*l[1].Features.UserNamespaces {
			t.Errorf("handlers %+v", l)
		}
		if h.Features == nil || !*h.Features.SupplementalGroupsPolicy {
			t.Errorf("features %+v", h.Features)
		}
		// What cannot be seen is as it was; then it is as it is.
		rt.set(rt.features, rt.images, errors.New("runtime unavailable"))
		time.Sleep(2 * inventoryPeriod)
		synctest.Wait()
		if h := i.Current(); len(h.Images) != 50 {
			t.Errorf("%d images of a runtime that is away", len(h.Images))
		}
		rt.set(Features{}, rt.images[:1], nil)
		time.Sleep(inventoryPeriod)
		synctest.Wait()
		if h := i.Current(); len(h.Images) != 1 || h.Handlers != nil || h.Features != nil {
			t.Errorf("then %+v", h)
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if n := len(nodeImages(make([]Image, 9), -1)); n != 0 {
			t.Errorf("%d images without a name", n)
		}
	})
}

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

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstead/podstead/cri"
)

type runtimeOf struct {
	images []cri.StoredImage
	mu     sync.Mutex
	can    cri.Capabilities
	err    error
}

func (r *runtimeOf) Capabilities(context.Context) (cri.Capabilities, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.can, r.err
}

func (r *runtimeOf) StoredImages(context.Context) ([]cri.StoredImage, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.images, r.err
}

func (r *runtimeOf) set(can cri.Capabilities, images []cri.StoredImage, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.can, r.images, r.err = can, images, err
}

func TestInventory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := &runtimeOf{can: cri.Capabilities{
			Features: &runtimeapi.RuntimeFeatures{SupplementalGroupsPolicy: true},
			Handlers: map[string]*runtimeapi.RuntimeHandlerFeatures{"runc": {UserNamespaces: true}, "": {RecursiveReadOnlyMounts: true}},
		}}
		for n := range 60 {
			rt.images = append(rt.images, cri.StoredImage{ID: fmt.Sprint(n), Tags: []string{fmt.Sprintf("tag:%d", n)}, Size: uint64(n)})
		}
		rt.images[7] = cri.StoredImage{Size: 1000, Tags: strings.Split("a b c d e f", " "), Digests: []string{"sha256:x"}}
		rt.images[8] = cri.StoredImage{Size: 2000}
		i := NewInventory(rt, 50, slog.New(slog.DiscardHandler))
		if h := i.Held(); h.Images != nil || h.Features != nil {
			t.Errorf("before a look: %+v", h)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- i.Run(ctx) }()
		synctest.Wait()
		h := i.Held()
		if len(h.Images) != 50 || h.Images[0].SizeBytes != 1000 || h.Images[1].SizeBytes != 59 || h.Images[49].SizeBytes != 11 {
			t.Errorf("images %+v", h.Images)
		}
		if got := strings.Join(h.Images[0].Names, " "); got != "sha256:x a b c d" {
			t.Errorf("names %s", got)
		}
		if l := h.Handlers; len(l) != 2 || l[0].Name != "" || !*l[0].Features.RecursiveReadOnlyMounts || *l[0].Features.UserNamespaces || l[1].Name != "runc" || !*l[1].Features.UserNamespaces {
			t.Errorf("handlers %+v", l)
		}
		if h.Features == nil || !*h.Features.SupplementalGroupsPolicy {
			t.Errorf("features %+v", h.Features)
		}
		// What cannot be seen is as it was; then it is as it is.
		rt.set(rt.can, rt.images, errors.New("away"))
		time.Sleep(2 * inventoryPeriod)
		synctest.Wait()
		if h := i.Held(); len(h.Images) != 50 {
			t.Errorf("%d images of a runtime that is away", len(h.Images))
		}
		rt.set(cri.Capabilities{}, rt.images[:1], nil)
		time.Sleep(inventoryPeriod)
		synctest.Wait()
		if h := i.Held(); len(h.Images) != 1 || h.Handlers != nil || h.Features != nil {
			t.Errorf("then %+v", h)
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if n := len(shownImages(make([]cri.StoredImage, 9), -1)); n != 0 {
			t.Errorf("%d images without a name", n)
		}
	})
}

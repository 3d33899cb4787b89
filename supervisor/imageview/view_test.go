package imageview

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podstead/podstead/api"
	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/cri/critest"
	"github.com/podstead/podstead/cri/imagearchives"
	"github.com/podstead/podstead/cri/imageload"
	"github.com/podstead/podstead/cri/pullrecords"
	"github.com/podstead/podstead/gc"
)

const web = "registry.test/web:1"

// node lists what the runtime has, and loads an archive of the image web.
type node struct {
	client *cri.Client
	err    error
}

func (n *node) List(ctx context.Context) (list []gc.Image, err error) {
	stored, err := n.client.StoredImages(ctx)
	for i := range stored {
		list = append(list, gc.Image{StoredImage: stored[i], State: "unused", Pulled: time.Unix(1, 0),
			LastUsed: time.Unix(2, 0)})
	}
	return list, err
}

func (n *node) Prune(ctx context.Context, dryRun bool) (list []gc.Removal, err error) {
	all, err := n.List(ctx)
	for i := range all {
		list = append(list, gc.Removal{Image: all[i]})
		if !dryRun {
			list[i].Err = errors.New("it is in use")
		}
	}
	return list, err
}

func (n *node) Load(ctx context.Context, _ io.Reader, as string) ([]imageload.Image, error) {
	stored, _, err := n.client.StoredImage(ctx, web)
	return []imageload.Image{{Name: web, ID: stored.ID}}, errors.Join(n.err, err)
}

// harness is a view of a fake runtime, with who was notified.
type harness struct {
	View
	fake     *critest.Fake
	node     *node
	records  string
	notified []string
}

func newHarness(t *testing.T) *harness {
	h := &harness{fake: critest.New(t), records: t.TempDir()}
	h.fake.SetImages()
	h.fake.SetPullable(web)
	client := h.fake.Client(t)
	h.node = &node{client: client}
	h.View = View{
		Node: h.node, Service: client, Loader: h.node,
		Records: pullrecords.Open(pullrecords.Config{Dir: h.records, Images: client,
			Log: slog.New(slog.DiscardHandler)}),
		Credentials: func(string, []string) cri.PullCredentials { return cri.PullCredentials{} },
		Changed:     func() { h.notified = append(h.notified, "pods") },
		Loaded:      func(names []string) { h.notified = append(h.notified, "updates of "+strings.Join(names, " ")) },
	}
	return h
}

// pulled returns how many images are recorded as pulled.
func (h *harness) pulled(t *testing.T) int {
	t.Helper()
	files, err := os.ReadDir(filepath.Join(h.records, "pulled"))
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}

// A pulled image is shown under the name of the request, and pods that wait for it are notified.
func TestPull(t *testing.T) {
	h := newHarness(t)
	image, err := h.PullImage(t.Context(), api.Pull{Image: web, Namespace: "default"})
	if err != nil || image.Name != web || image.ID == "" || image.State != "unused" {
		t.Errorf("%+v, %v", image, err)
	}
	if !slices.Equal(h.notified, []string{"pods"}) || h.pulled(t) != 1 {
		t.Errorf("notified %q, %d recorded", h.notified, h.pulled(t))
	}
	h.notified = nil
	var invalid *api.InvalidImageError
	if _, err := h.PullImage(t.Context(), api.Pull{Image: "Web:1"}); !errors.As(err, &invalid) {
		t.Errorf("a wrong name: %v", err)
	}
	if _, err := h.PullImage(t.Context(), api.Pull{Image: "registry.test/none:1"}); err == nil ||
		errors.As(err, &invalid) {
		t.Errorf("an image that is not in the registry: %v", err)
	}
	if h.notified != nil {
		t.Errorf("notified %q of nothing", h.notified)
	}
}

// A loaded image is the owner's, no longer one that was pulled. What was loaded is shown although the rest failed.
func TestLoad(t *testing.T) {
	h := newHarness(t)
	if _, err := h.PullImage(t.Context(), api.Pull{Image: web}); err != nil {
		t.Fatal(err)
	}
	h.notified = nil
	list, err := h.LoadImages(t.Context(), nil, "")
	if err != nil || len(list) != 1 || list[0].Name != web || h.pulled(t) != 0 ||
		!slices.Equal(h.notified, []string{"pods", "updates of " + web}) {
		t.Errorf("%+v, %v, notified %q, %d recorded", list, err, h.notified, h.pulled(t))
	}
	var invalid *api.InvalidImageError
	h.node.err = &imageload.InputError{Err: errors.New("the archive is damaged")}
	if list, err := h.LoadImages(t.Context(), nil, ""); !errors.As(err, &invalid) ||
		err.Error() != "the archive is damaged" || len(list) != 1 {
		t.Errorf("a damaged archive: %+v, %v", list, err)
	}
	h.node.err = errors.New("the runtime is down")
	if _, err := h.LoadImages(t.Context(), nil, ""); err == nil || errors.As(err, &invalid) {
		t.Errorf("a fault of the runtime: %v", err)
	}
}

func TestList(t *testing.T) {
	h := newHarness(t)
	if list, err := h.Images(t.Context()); err != nil || list == nil || len(list) != 0 {
		t.Errorf("no images: %v, %v", list, err)
	}
	h.fake.SetImages(web)
	want := api.Image{Name: web, State: "unused", Pulled: time.Unix(1, 0), LastUsed: time.Unix(2, 0)}
	check := func(what string, list []api.Image, err error, fault string) {
		t.Helper()
		if err != nil || len(list) != 1 {
			t.Fatalf("%s: %v, %v", what, list, err)
		}
		got := list[0]
		if got.Name != want.Name || got.State != want.State || !got.Pulled.Equal(want.Pulled) ||
			!got.LastUsed.Equal(want.LastUsed) || got.ID == "" || got.Error != fault {
			t.Errorf("%s: %+v", what, got)
		}
	}
	list, err := h.Images(t.Context())
	check("list", list, err, "")
	list, err = h.PruneImages(t.Context(), true)
	check("dry run", list, err, "")
	list, err = h.PruneImages(t.Context(), false)
	check("prune", list, err, "it is in use")
}

func TestArchives(t *testing.T) {
	v := View{Archives: func() imagearchives.Status {
		return imagearchives.Status{Dir: "/images", Fault: "not read", Ignored: []string{"README"},
			Archives: []imagearchives.Archive{
				{File: "/images/web.tar", State: imagearchives.Failed, Message: "damaged", Images: []string{web},
					Superseded: map[string]string{web: "/images/b.tar"}}}}
	}}
	got := v.ImageArchives()
	if got.Directory != "/images" || got.Fault != "not read" || !slices.Equal(got.Ignored, []string{"README"}) ||
		len(got.Archives) != 1 {
		t.Fatalf("%+v", got)
	}
	if a := got.Archives[0]; a.File != "/images/web.tar" || a.State != "Failed" || a.Message != "damaged" ||
		!slices.Equal(a.Images, []string{web}) || a.Superseded[web] != "/images/b.tar" {
		t.Errorf("%+v", a)
	}
	v.Archives = func() imagearchives.Status { return imagearchives.Status{} }
	if got := v.ImageArchives(); got.Archives == nil {
		t.Error("a directory without archives has null, not an empty list")
	}
}

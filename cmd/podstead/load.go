package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/distribution/reference"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/cri/archive"
	"github.com/podstead/podstead/cri/private"
	"github.com/podstead/podstead/gc"
	"github.com/podstead/podstead/httpapi"
)

// imageLoader loads archives of images into the runtime. CRI has no call for
// that, so each kind of runtime has a way of its own.
type imageLoader struct {
	rt     *openedRuntime
	images *gc.Images
	// service pulls, and tells images of it.
	service cri.ImageRuntime
	// dir is where archives are kept while they are loaded.
	dir string
	// one is held by the load under way.
	one sync.Mutex
}

// appearing is how long an imported image may take until CRI shows it.
const appearing = 30 * time.Second

// load loads the images of an archive and returns their names with their IDs. as
// is the name of one that has none, or another.
func (l *imageLoader) load(ctx context.Context, r io.Reader, as string) (loaded [][2]string, err error) {
	put, err := l.way(ctx)
	if err != nil {
		return nil, err
	}
	a, err := archive.Read(ctx, l.dir, r)
	if err != nil {
		return nil, badArchive(ctx, err)
	}
	defer a.Close()
	images, err := a.Images(archive.Platform{OS: runtime.GOOS, Architecture: runtime.GOARCH}, as)
	if err != nil {
		return nil, badArchive(ctx, err)
	}
	l.one.Lock()
	defer l.one.Unlock()
	if err := put(ctx, images); err != nil {
		return nil, fmt.Errorf("cannot load images: %w", err)
	}
	for _, i := range images {
		for _, name := range i.Names {
			loaded = append(loaded, [2]string{name, i.ID})
		}
	}
	return loaded, nil
}

func badArchive(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return &httpapi.BadImageError{Err: err}
}

// way is how images are put into the runtime; an error says that there is none,
// and what to do instead.
func (l *imageLoader) way(ctx context.Context) (func(context.Context, []*archive.Image) error, error) {
	if l.rt.own != nil {
		return l.offer, nil
	}
	version, err := l.rt.client.Version(ctx)
	if err != nil {
		return nil, err
	}
	switch version.Name {
	case "containerd":
		socket := strings.TrimPrefix(l.rt.client.Endpoint(), "unix://")
		ctr, err := archive.FindCtr(ctx, socket)
		if err != nil {
			return nil, &httpapi.BadImageError{Err: err}
		}
		return func(ctx context.Context, images []*archive.Image) error { return l.importBy(ctx, ctr, socket, images) }, nil
	case "cri-o":
		return nil, &httpapi.BadImageError{Err: errors.New("this runtime is CRI-O, which takes images from registries alone; its store is that of podman: podman load --input ARCHIVE, as root, loads them")}
	case "docker":
		return nil, &httpapi.BadImageError{Err: errors.New("this runtime is Docker, whose own command loads images: docker load --input ARCHIVE")}
	}
	return nil, &httpapi.BadImageError{Err: fmt.Errorf("runtime %s takes images from registries alone; load them with a command of its own", version.Name)}
}

// importBy has a containerd's own command import images.
func (l *imageLoader) importBy(ctx context.Context, ctr, socket string, images []*archive.Image) error {
	before := map[string]string{}
	for _, i := range images {
		for _, name := range i.Names {
			was, _, err := l.rt.client.StoredImage(ctx, name)
			if err != nil {
				return err
			}
			before[name] = was.ID
		}
	}
	if err := archive.Import(ctx, ctr, socket, images); err != nil {
		return err
	}
	for _, i := range images {
		for _, name := range i.Names {
			if err := l.appears(ctx, name, i.ID); err != nil {
				return err
			}
			l.images.Pulled(ctx, name, before[name])
		}
	}
	return nil
}

// appears waits until CRI shows an image under its name: containerd tells its
// CRI plugin of an import by an event.
func (l *imageLoader) appears(ctx context.Context, name, id string) error {
	limit, cancel := context.WithTimeout(ctx, appearing)
	defer cancel()
	for {
		image, _, err := l.rt.client.StoredImage(limit, name)
		if err == nil && image.ID == id {
			return nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-limit.Done():
			return errors.Join(fmt.Errorf("image %s was imported, and the runtime does not show it", name), err, ctx.Err())
		}
	}
}

// offer has the private containerd pull images from this process, under their
// own names.
func (l *imageLoader) offer(ctx context.Context, images []*archive.Image) (err error) {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	registry := archive.NewRegistry(images)
	server := &http.Server{Handler: registry, ReadHeaderTimeout: time.Minute}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(ln) // until it is closed
	}()
	defer func() {
		_ = server.Close()
		<-served
	}()
	from := private.Offer{URL: "http://" + ln.Addr().String(), Header: archive.TokenHeader, Value: registry.Token}
	for _, i := range images {
		for _, name := range i.Names {
			if err := l.pullOffered(ctx, from, name, i.ID); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *imageLoader) pullOffered(ctx context.Context, from private.Offer, name, id string) error {
	named, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return err
	}
	withdraw, err := l.rt.own.Offer(reference.Domain(named), from)
	if err != nil {
		return err
	}
	defer withdraw()
	got, err := l.service.PullImage(ctx, name, nil)
	if err != nil {
		return err
	}
	if got != id {
		return fmt.Errorf("the runtime has pulled %s as %s, and the archive's is %s", name, got, id)
	}
	return nil
}

// loadFolder is where archives are kept while they are loaded.
func loadFolder(root string) string { return filepath.Join(root, "load") }

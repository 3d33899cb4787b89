package imageload

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/distribution/reference"

	"github.com/podstead/podstead/cri/archive"
	"github.com/podstead/podstead/cri/private"
)

// serve lets the private containerd pull the images from this process, under
// their own names.
func (l *Loader) serve(ctx context.Context, images []*archive.Image) error {
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
	offer := private.Mirror{URL: "http://" + ln.Addr().String(), Header: archive.TokenHeader, Value: registry.Token}
	for _, i := range images {
		for _, name := range i.Names {
			if err := l.pull(ctx, offer, name, i.ID); err != nil {
				return err
			}
		}
	}
	return nil
}

// pull pulls one image from the offer, and checks that it is the archive's.
func (l *Loader) pull(ctx context.Context, offer private.Mirror, name, id string) error {
	named, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return err
	}
	withdraw, err := l.cfg.Private.AddMirror(reference.Domain(named), offer)
	if err != nil {
		return err
	}
	defer withdraw()
	got, err := l.cfg.Images.PullImage(ctx, name, nil)
	if err != nil {
		return err
	}
	if got != id {
		return fmt.Errorf("the runtime pulled image %q as %s, but the archive contains %s", name, got, id)
	}
	return nil
}

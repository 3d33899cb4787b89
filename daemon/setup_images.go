package daemon

import (
	"context"
	"errors"
	"io"

	"github.com/podstead/podstead/api"
	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/cri/imagearchives"
	"github.com/podstead/podstead/cri/imageload"
	"github.com/podstead/podstead/cri/pullrecords"
	"github.com/podstead/podstead/gc"
	"github.com/podstead/podstead/httpapi"
)

// imageView serves the images of the runtime to the API.
type imageView struct {
	images *gc.Images
	// service pulls, and reports each pull to images.
	service cri.ImageRuntime
	records *pullrecords.Records
	logins  func(namespace string, secrets []string) cri.PullCredentials
	loader  *imageload.Loader
	// archives are loaded without a command.
	archives *imagearchives.Directory
	// changed is called after images were pulled or loaded, loaded with the names of those
	// that were loaded.
	changed func()
	loaded  func(names []string)
}

func (d *daemon) newImageView() imageView {
	return imageView{
		images: d.node.images, service: d.pulls, records: d.pullRecords, logins: d.sup.PullCredentials,
		changed: d.sup.ImagesAdded, loaded: d.node.updater.ImagesLoaded,
		loader: d.node.loader, archives: d.archives,
	}
}

// loadArchives keeps the images of the archives in a directory loaded.
func (d *daemon) loadArchives(ctx context.Context) error {
	return d.archives.Run(ctx, imagearchives.Runtime{
		Images: d.runtime.client, Loader: d.node.loader, Changed: d.sup.ImagesAdded,
		Loaded: func(images []imageload.Image) {
			var names []string
			for _, i := range images {
				d.pullRecords.Preloaded(i.Name, i.ID)
				names = append(names, i.Name)
			}
			d.node.updater.ImagesLoaded(names)
		},
	})
}

// ImageArchives implements httpapi.ImageManager.
func (v imageView) ImageArchives() api.ImageArchives {
	status := v.archives.Status()
	shown := api.ImageArchives{Directory: status.Dir, Fault: status.Fault, Ignored: status.Ignored,
		Archives: []api.ImageArchive{}}
	for _, a := range status.Archives {
		shown.Archives = append(shown.Archives, api.ImageArchive{
			File: a.File, State: string(a.State), Message: a.Message, Images: a.Images, Superseded: a.Superseded,
		})
	}
	return shown
}

// Images implements httpapi.ImageKeeper.
func (v imageView) Images(ctx context.Context) ([]api.Image, error) {
	list, err := v.images.List(ctx)
	shown := make([]api.Image, 0, len(list))
	for i := range list {
		shown = append(shown, showImage(&list[i], nil))
	}
	return shown, err
}

// PruneImages implements httpapi.ImageKeeper.
func (v imageView) PruneImages(ctx context.Context, dryRun bool) ([]api.Image, error) {
	list, err := v.images.Prune(ctx, dryRun)
	shown := make([]api.Image, 0, len(list))
	for i := range list {
		shown = append(shown, showImage(&list[i].Image, list[i].Err))
	}
	return shown, err
}

// PullImage implements httpapi.ImageKeeper.
func (v imageView) PullImage(ctx context.Context, p api.Pull) (api.Image, error) {
	name, id, err := cri.PullImage(ctx, v.service, v.records, p.Image, v.logins(p.Namespace, p.Secrets))
	var bad *cri.NameError
	if errors.As(err, &bad) {
		return api.Image{}, &httpapi.InvalidImageError{Err: err}
	}
	if err != nil {
		return api.Image{}, err
	}
	v.changed()
	return v.named(ctx, name, id)
}

// LoadImages implements httpapi.ImageKeeper.
func (v imageView) LoadImages(ctx context.Context, r io.Reader, as string) (shown []api.Image, err error) {
	loaded, err := v.loader.Load(ctx, r, as)
	var names []string
	for _, l := range loaded {
		v.records.Preloaded(l.Name, l.ID)
		names = append(names, l.Name)
	}
	v.changed()
	v.loaded(names)
	var input *imageload.InputError
	if errors.As(err, &input) {
		err = &httpapi.InvalidImageError{Err: input.Err}
	}
	for _, l := range loaded {
		image, err := v.named(ctx, l.Name, l.ID)
		if err != nil {
			return shown, err
		}
		shown = append(shown, image)
	}
	return shown, err
}

// named returns the image of a name, or else of an ID.
func (v imageView) named(ctx context.Context, name, id string) (api.Image, error) {
	list, err := v.images.List(ctx)
	if err != nil {
		return api.Image{}, err
	}
	for i := range list {
		if list[i].Has(name) {
			shown := showImage(&list[i], nil)
			shown.Name = name
			return shown, nil
		}
	}
	return api.Image{Name: name, ID: id}, nil
}

func showImage(i *gc.Image, err error) api.Image {
	shown := api.Image{Name: i.Name(), ID: i.ID, Tags: i.Tags, Size: i.Size, State: string(i.State), Pulled: i.Pulled,
		LastUsed: i.LastUsed}
	if err != nil {
		shown.Error = err.Error()
	}
	return shown
}

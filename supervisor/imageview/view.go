package imageview

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
)

// Images are those of the runtime. Implemented by gc.Images.
type Images interface {
	List(ctx context.Context) ([]gc.Image, error)
	Prune(ctx context.Context, dryRun bool) ([]gc.Removal, error)
}

// Loader loads archives. Implemented by imageload.Loader.
type Loader interface {
	Load(ctx context.Context, archive io.Reader, as string) ([]imageload.Image, error)
}

// View serves the images of the runtime to the API. All fields are required.
type View struct {
	Node Images
	// Service pulls, and Records records what was pulled and loaded.
	Service cri.ImageRuntime
	Records *pullrecords.Records
	// Credentials returns those of a namespace's secrets, and of the node.
	Credentials func(namespace string, secrets []string) cri.PullCredentials
	Loader      Loader
	// Archives returns the state of those that are loaded without a command. Implemented by
	// imagearchives.Directory.
	Archives func() imagearchives.Status
	// Changed is called after images were pulled or loaded, Loaded with the names of those that were loaded.
	Changed func()
	Loaded  func(names []string)
}

// Preloaded records images that the owner of the node has loaded.
func (v View) Preloaded(images []imageload.Image) {
	var names []string
	for _, i := range images {
		v.Records.Preloaded(i.Name, i.ID)
		names = append(names, i.Name)
	}
	v.Loaded(names)
}

// ImageArchives implements httpapi.ImageManager.
func (v View) ImageArchives() api.ImageArchives {
	status := v.Archives()
	shown := api.ImageArchives{Directory: status.Dir, Fault: status.Fault, Ignored: status.Ignored,
		Archives: []api.ImageArchive{}}
	for _, a := range status.Archives {
		shown.Archives = append(shown.Archives, api.ImageArchive{
			File: a.File, State: string(a.State), Message: a.Message, Images: a.Images, Superseded: a.Superseded,
		})
	}
	return shown
}

// Images implements httpapi.ImageManager.
func (v View) Images(ctx context.Context) ([]api.Image, error) {
	list, err := v.Node.List(ctx)
	shown := make([]api.Image, 0, len(list))
	for i := range list {
		shown = append(shown, showImage(&list[i], nil))
	}
	return shown, err
}

// PruneImages implements httpapi.ImageManager.
func (v View) PruneImages(ctx context.Context, dryRun bool) ([]api.Image, error) {
	list, err := v.Node.Prune(ctx, dryRun)
	shown := make([]api.Image, 0, len(list))
	for i := range list {
		shown = append(shown, showImage(&list[i].Image, list[i].Err))
	}
	return shown, err
}

// PullImage implements httpapi.ImageManager.
func (v View) PullImage(ctx context.Context, p api.Pull) (api.Image, error) {
	name, id, err := cri.PullImage(ctx, v.Service, v.Records, p.Image, v.Credentials(p.Namespace, p.Secrets))
	var bad *cri.NameError
	if errors.As(err, &bad) {
		return api.Image{}, &api.InvalidImageError{Err: err}
	}
	if err != nil {
		return api.Image{}, err
	}
	v.Changed()
	return v.named(ctx, name, id)
}

// LoadImages implements httpapi.ImageManager.
func (v View) LoadImages(ctx context.Context, r io.Reader, as string) (shown []api.Image, err error) {
	loaded, err := v.Loader.Load(ctx, r, as)
	v.Changed()
	v.Preloaded(loaded)
	var input *imageload.InputError
	if errors.As(err, &input) {
		err = &api.InvalidImageError{Err: input.Err}
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
func (v View) named(ctx context.Context, name, id string) (api.Image, error) {
	list, err := v.Node.List(ctx)
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

package autoupdate

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/api"
	"github.com/podstead/podstead/cri"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/internal/registry"
	"github.com/podstead/podstead/supervisor/rollout"
)

// maxManifest bounds a manifest or index in bytes, as registries do.
const maxManifest = 4 << 20

// maxVariants is how many images for this machine an index may have: one for each variant of
// the architecture, of which Go knows four for amd64 and for arm.
const maxVariants = 16

// comparison is the comparison of what one container runs with the newest image.
type comparison struct {
	result api.ContainerImageUpdate
	// update and running are the newest and the present image as references; both are
	// empty if there is nothing to do.
	update, running string
	// err is why the newest image is not known.
	err error
}

// compare compares the images of the containers of a pod.
func (u *Updater) compare(ctx context.Context, t *rollout.ImageTarget, rec *podRecord) []comparison {
	mode := podinfo.AutoUpdate(t.Manifest)
	var all []comparison
	for c := range podinfo.EachContainer(&t.Manifest.Spec, podinfo.AllContainers) {
		cmp := u.compareContainer(ctx, t, c, mode, rec)
		cmp.result.Container, cmp.result.Image = c.Name, c.Image
		if cmp.err != nil {
			cmp.result.State, cmp.result.Message = api.UpdateFailed, cmp.err.Error()
		}
		all = append(all, cmp)
	}
	return all
}

func skipped(format string, args ...any) comparison {
	return comparison{result: api.ContainerImageUpdate{State: api.UpdateSkipped, Message: fmt.Sprintf(format, args...)}}
}

func (u *Updater) compareContainer(ctx context.Context, t *rollout.ImageTarget, c *v1.Container, mode string,
	rec *podRecord) comparison {
	ref, err := registry.Parse(c.Image)
	switch {
	case err != nil:
		return comparison{err: err}
	case ref.Digest != "":
		return skipped("the manifest names a digest")
	case mode == podinfo.AutoUpdateRegistry && c.ImagePullPolicy == v1.PullNever:
		return skipped("imagePullPolicy is Never")
	}
	image, err := u.runningImage(ctx, t, c.Name)
	if err != nil {
		return comparison{err: err}
	}
	if image.ID == "" {
		return skipped("the container has not started yet")
	}
	cmp := comparison{running: exactReference(c.Image, image, ref),
		result: api.ContainerImageUpdate{Running: digestOf(image, ref)}}
	if set := t.Images[c.Name]; set != "" {
		cmp.running = set
		if _, digest, ok := strings.Cut(set, "@"); ok {
			cmp.result.Running = digest
		}
	}
	var same bool
	if mode == podinfo.AutoUpdateLocal {
		same, err = u.compareLocal(ctx, c.Image, ref, &image, &cmp)
	} else {
		same, err = u.compareRegistry(ctx, t.Manifest, c.Image, ref, &image, rec, &cmp)
	}
	switch {
	case err != nil:
		return comparison{err: err, result: cmp.result}
	case cmp.update == "":
		return cmp // skipped
	case same:
		cmp.update, cmp.running, cmp.result.State = "", "", api.UpdateCurrent
	case cmp.update == rec.Rejected[c.Name]:
		cmp.update, cmp.running, cmp.result.State = "", "", api.UpdateRolledBack
		cmp.result.Message = rolledBackMessage
	default:
		cmp.result.State = api.UpdateAvailable
	}
	return cmp
}

// compareLocal looks up what the runtime has under the image's name.
func (u *Updater) compareLocal(ctx context.Context, name string, ref registry.Reference, running *cri.StoredImage,
	cmp *comparison) (same bool, err error) {
	// With a tag: the runtime completes no reference that it only looks up.
	stored, ok, err := u.cfg.Images.StoredImage(ctx, withTag(name, ref))
	if err != nil {
		return false, err
	}
	if !ok {
		cmp.result.State, cmp.result.Message = api.UpdateSkipped, "the runtime has no image of this name"
		return false, nil
	}
	cmp.update, cmp.result.Latest = exactReference(name, stored, ref), digestOf(stored, ref)
	return stored.ID == running.ID, nil
}

// compareRegistry asks the registry for the digest of the tag.
func (u *Updater) compareRegistry(ctx context.Context, pod *v1.Pod, name string, ref registry.Reference,
	running *cri.StoredImage, rec *podRecord, cmp *comparison) (same bool, err error) {
	credentials, err := u.credentials(ctx, pod, name)
	if err != nil {
		return false, err
	}
	found, err := u.cfg.Registry.Resolve(ctx, ref, credentials...)
	if err != nil {
		return false, checkError(name, err)
	}
	cmp.result.Latest, cmp.update = found.Digest, withTag(name, ref)+"@"+found.Digest
	if hasDigest(running, found.Digest) || rec.Same[found.Digest] == running.ID || cmp.running == cmp.update {
		return true, nil
	}
	// The tag may name an index of several platforms, of which only another one has
	// changed, or the image may have been loaded from an archive.
	ids, err := u.platformImages(ctx, ref.WithDigest(found.Digest), credentials, running)
	if err != nil {
		return false, checkError(name, err)
	}
	for _, id := range ids {
		if id == running.ID || hasDigest(running, id) {
			if rec.Same == nil {
				rec.Same = map[string]string{}
			}
			clear(rec.Same) // that of the digest before is not needed any more
			rec.Same[found.Digest] = running.ID
			return true, nil
		}
	}
	return false, nil
}

// credentials looks up the credentials for an image as a pull does.
func (u *Updater) credentials(ctx context.Context, pod *v1.Pod, image string) ([]registry.Credential, error) {
	lookup := u.cfg.Credentials(pod).Lookup
	if lookup == nil {
		return nil, nil
	}
	list, err := lookup(ctx, image)
	if err != nil && len(list) == 0 {
		u.cfg.Log.Debug("Failed to look up credentials for an image, checking it without", "image", image, "err", err)
	}
	all := make([]registry.Credential, 0, len(list))
	for _, c := range list {
		all = append(all, registry.Credential{Username: c.Username, Password: c.Password, IdentityToken: c.IdentityToken,
			RegistryToken: c.RegistryToken})
	}
	return all, ctx.Err()
}

// checkError reports what to do about the error of a registry.
func checkError(image string, err error) error {
	remedy := ""
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, registry.ErrUnauthorized):
		remedy = "; check imagePullSecrets"
	case errors.Is(err, registry.ErrNotFound):
		remedy = "; the running image is kept; push the tag again, or correct the manifest"
	}
	return fmt.Errorf("failed to check image %q: %w%s", image, err, remedy)
}

// platformImages returns the digests of the manifests and the IDs of the images that a
// reference by digest names for this machine: of an index those of its operating system
// and architecture, of which there are several if they differ in the variant.
func (u *Updater) platformImages(ctx context.Context, ref registry.Reference, credentials []registry.Credential,
	running *cri.StoredImage) (ids []string, err error) {
	top, err := u.cfg.Registry.FetchManifest(ctx, ref, maxManifest, credentials...)
	if err != nil {
		return nil, err
	}
	if !top.IsIndex() {
		return []string{top.Digest, top.Config.Digest}, nil
	}
	variants := 0
	for _, d := range top.Manifests {
		if d.Platform == nil || d.Platform.OS != "linux" || d.Platform.Architecture != runtime.GOARCH {
			continue
		}
		if variants++; variants > maxVariants {
			return nil, fmt.Errorf("the registry has more than %d images for linux/%s under one tag; push fewer", maxVariants,
				runtime.GOARCH)
		}
		ids = append(ids, d.Digest)
		if hasDigest(running, d.Digest) {
			continue
		}
		m, err := u.cfg.Registry.FetchManifest(ctx, ref.WithDigest(d.Digest), maxManifest, credentials...)
		if err != nil {
			return nil, err
		}
		ids = append(ids, m.Config.Digest)
	}
	if len(ids) == 0 {
		return nil, fmt.Errorf("the registry has it for other platforms, not for linux/%s", runtime.GOARCH)
	}
	return ids, nil
}

// runningImage returns the image of the newest instance of a container; one without an ID
// if there is no instance.
func (u *Updater) runningImage(ctx context.Context, t *rollout.ImageTarget, container string) (cri.StoredImage, error) {
	for _, pod := range u.cfg.Observed().Own {
		if pod.UID != t.UID || t.UID == "" {
			continue
		}
		for i := range pod.Containers {
			c := &pod.Containers[i]
			if c.Name != container {
				continue
			}
			for _, ref := range []string{c.ImageRef, c.Image} {
				if ref == "" {
					continue
				}
				image, ok, err := u.cfg.Images.StoredImage(ctx, ref)
				if ok || err != nil {
					return image, err
				}
			}
			return cri.StoredImage{}, nil // removed by another client
		}
	}
	return cri.StoredImage{}, nil
}

// hasDigest reports whether the runtime knows an image by a digest.
func hasDigest(image *cri.StoredImage, digest string) bool {
	if image.ID == digest {
		return true
	}
	for _, d := range image.Digests {
		if strings.HasSuffix(d, "@"+digest) {
			return true
		}
	}
	return false
}

// digestOf returns the digest under which an image was pulled from a repository, or else its
// ID.
func digestOf(image cri.StoredImage, ref registry.Reference) string {
	for _, d := range image.Digests {
		if name, digest, ok := strings.Cut(d, "@"); ok && name == ref.Name() {
			return digest
		}
	}
	return image.ID
}

// withTag returns an image as it is written, with its tag.
func withTag(image string, ref registry.Reference) string {
	if strings.HasSuffix(image, ":"+ref.Tag) {
		return image
	}
	return image + ":" + ref.Tag
}

// exactReference returns a reference that names just this image: the name as it is written with
// a digest, or the ID of an image that was not pulled.
func exactReference(name string, image cri.StoredImage, ref registry.Reference) string {
	if digest := digestOf(image, ref); digest != image.ID {
		return withTag(name, ref) + "@" + digest
	}
	return image.ID
}

package archive

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/distribution/reference"
)

// The media types of OCI, which every runtime knows.
const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar"
	// Docker's, which archives contain too.
	typeDockerList     = "application/vnd.docker.distribution.manifest.list.v2+json"
	typeDockerManifest = "application/vnd.docker.distribution.manifest.v2+json"
)

// Image is an image of an archive, for the requested platform.
type Image struct {
	// Names are its full names, with host and tag.
	Names []string
	// ID is the digest of its configuration, which runtimes use as its ID.
	ID string
	// root is its manifest, or the index that leads to it.
	root descriptor
	// blobs are all its parts, by digest.
	blobs map[string]blob
}

// blob is a part of an image: bytes of the archive, or generated ones.
type blob struct {
	mediaType string
	size      int64
	open      func() io.ReadSeeker
}

// descriptor is OCI's.
type descriptor struct {
	MediaType   string            `json:"mediaType,omitempty"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Platform    *Platform         `json:"platform,omitempty"`
}

// document is an index or a manifest.
type document struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType,omitempty"`
	Manifests     []descriptor `json:"manifests,omitempty"`
	Config        *descriptor  `json:"config,omitempty"`
	Layers        []descriptor `json:"layers,omitempty"`
}

// Platform is what an image is built for.
type Platform struct {
	OS           string `json:"os"`
	Architecture string `json:"architecture"`
	Variant      string `json:"variant,omitempty"`
}

// String returns os/architecture[/variant].
func (p Platform) String() string {
	return strings.TrimSuffix(p.OS+"/"+p.Architecture+"/"+p.Variant, "/")
}

// canRun reports whether an image built for o runs on p.
func (p Platform) canRun(o Platform) bool { return p.OS == o.OS && p.Architecture == o.Architecture }

// Images returns the images of the archive for a platform. name, if not empty,
// replaces the name of a single image.
func (a *Archive) Images(p Platform, name string) ([]*Image, error) {
	images, err := a.images(p)
	if err != nil {
		return nil, err
	}
	if name != "" {
		if len(images) != 1 {
			return nil, fmt.Errorf("the archive contains %d images: --name requires a single one", len(images))
		}
		images[0].Names = []string{name}
	}
	for _, i := range images {
		if len(i.Names) == 0 {
			return nil, errors.New("the image in the archive has no full name: set one with --name HOST/REPOSITORY:TAG")
		}
		for k, given := range i.Names {
			if i.Names[k], err = fullName(given); err != nil {
				return nil, err
			}
		}
	}
	return images, nil
}

func (a *Archive) images(p Platform) ([]*Image, error) {
	docker, err := a.dockerManifest()
	if err != nil {
		return nil, err
	}
	if index, ok := a.find("index.json"); ok {
		return a.layoutImages(index, docker, p)
	}
	if len(docker) == 0 {
		return nil, errors.New("the archive contains no images: it has neither an index.json (OCI layout) nor a " +
			"manifest.json (docker save), or it is truncated")
	}
	var images []*Image
	for i := range docker {
		image, err := a.dockerImage(&docker[i], p)
		if err != nil {
			return nil, err
		}
		images = append(images, image)
	}
	return images, nil
}

func fullName(name string) (string, error) {
	named, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return "", fmt.Errorf("image name %q is not a valid reference (%w): name it HOST/REPOSITORY:TAG", name, err)
	}
	if _, ok := named.(reference.Digested); ok {
		return "", fmt.Errorf("image name %q has a digest, which cannot be chosen: name it HOST/REPOSITORY:TAG", name)
	}
	return reference.TagNameOnly(named).String(), nil
}

// The annotations by which an OCI layout names an image: containerd's and
// docker's with the full name, OCI's often with the tag alone.
const (
	annotationName = "io.containerd.image.name"
	annotationRef  = "org.opencontainers.image.ref.name"
)

// layoutImages returns those of an OCI layout.
func (a *Archive) layoutImages(index entry, docker []dockerEntry, p Platform) ([]*Image, error) {
	var doc document
	if err := a.decode(index, &doc); err != nil {
		return nil, fmt.Errorf("failed to read the archive's index.json: %w", err)
	}
	var images []*Image
	for _, d := range doc.Manifests {
		name := d.name()
		if k := slices.IndexFunc(images, func(i *Image) bool { return i.root.Digest == d.Digest }); k >= 0 {
			images[k].addName(name)
			continue
		}
		image := &Image{root: descriptor{MediaType: d.MediaType, Digest: d.Digest, Size: d.Size}, blobs: map[string]blob{}}
		if err := a.collect(image, d, p); err != nil {
			return nil, fmt.Errorf("image %s of the archive: %w", cmp.Or(name, d.Annotations[annotationRef], d.Digest), err)
		}
		image.root.MediaType = image.blobs[d.Digest].mediaType
		image.addName(name)
		if len(image.Names) == 0 {
			for i := range docker {
				if e, ok := a.find(docker[i].Config); ok && e.digest == image.ID {
					image.Names = docker[i].RepoTags
				}
			}
		}
		images = append(images, image)
	}
	if len(images) == 0 {
		return nil, errors.New("the archive's index.json names no images")
	}
	return images, nil
}

// name returns the name that an index gives an image, empty if it gives it none.
func (d *descriptor) name() string {
	if name := d.Annotations[annotationName]; name != "" {
		return name
	}
	if ref := d.Annotations[annotationRef]; strings.ContainsAny(ref, "/:") {
		return ref
	}
	return ""
}

func (i *Image) addName(name string) {
	if name != "" && !slices.Contains(i.Names, name) {
		i.Names = append(i.Names, name)
	}
}

// collect adds what a descriptor refers to, of an index the part for the
// platform.
func (a *Archive) collect(image *Image, d descriptor, p Platform) error {
	e, err := a.blob(d, "manifest")
	if err != nil {
		return err
	}
	var doc document
	if err := a.decode(e, &doc); err != nil {
		return fmt.Errorf("failed to read its manifest: %w", err)
	}
	d.MediaType = cmp.Or(d.MediaType, doc.MediaType)
	switch {
	case d.MediaType == typeIndex, d.MediaType == typeDockerList, d.MediaType == "" && doc.Manifests != nil:
		a.addBlob(image, d.Digest, cmp.Or(d.MediaType, typeIndex), e)
		child, err := a.selectPlatform(doc.Manifests, p)
		if err != nil {
			return err
		}
		return a.collect(image, child, p)
	case d.MediaType == typeManifest, d.MediaType == typeDockerManifest, d.MediaType == "" && doc.Config != nil:
		a.addBlob(image, d.Digest, cmp.Or(d.MediaType, typeManifest), e)
	default:
		return fmt.Errorf("its manifest is of type %q, which is not an image manifest type", d.MediaType)
	}
	if doc.Config == nil {
		return errors.New("its manifest names no configuration")
	}
	config, err := a.blob(*doc.Config, "configuration")
	if err != nil {
		return err
	}
	if _, err := a.config(config, p); err != nil {
		return err
	}
	image.ID = doc.Config.Digest
	a.addBlob(image, doc.Config.Digest, doc.Config.MediaType, config)
	for _, l := range doc.Layers {
		layer, err := a.blob(l, "layer")
		if err != nil {
			return err
		}
		a.addBlob(image, l.Digest, l.MediaType, layer)
	}
	return nil
}

// selectPlatform returns the manifest of an index for a platform.
func (a *Archive) selectPlatform(list []descriptor, p Platform) (descriptor, error) {
	var has []string
	var fit []descriptor
	for _, d := range list {
		switch {
		case d.Platform == nil:
			fit = append(fit, d) // its configuration has it
		case p.canRun(*d.Platform):
			fit = append(fit, d)
		case d.Platform.OS != "unknown": // an attestation
			has = append(has, d.Platform.String())
		}
	}
	if len(fit) == 0 {
		return descriptor{}, wrongPlatform(p, has...)
	}
	// Prefer the variant without requirements, and manifests that exist: archives
	// often contain only one platform of many.
	there := func(d descriptor) int {
		if _, ok := a.find(blobPath(d.Digest)); ok {
			return 0
		}
		return 1
	}
	variant := func(d descriptor) string {
		if d.Platform == nil {
			return ""
		}
		return d.Platform.Variant
	}
	return slices.MinFunc(fit, func(x, y descriptor) int {
		return cmp.Or(cmp.Compare(there(x), there(y)), cmp.Compare(variant(x), variant(y)))
	}), nil
}

func wrongPlatform(p Platform, has ...string) error {
	return fmt.Errorf("it is for %s, and this machine is %s: create the archive for that platform (docker pull "+
		"--platform %s before docker save)", strings.Join(has, ", "), p, p)
}

// imageConfig is the part of a configuration that is needed.
type imageConfig struct {
	Platform
	RootFS struct {
		DiffIDs []string `json:"diff_ids"`
	} `json:"rootfs"`
}

// config returns the configuration of an image, an error if the platform is
// another.
func (a *Archive) config(e entry, p Platform) (imageConfig, error) {
	var c imageConfig
	if err := a.decode(e, &c); err != nil {
		return c, fmt.Errorf("failed to read its configuration: %w", err)
	}
	if !p.canRun(c.Platform) {
		return c, wrongPlatform(p, c.Platform.String())
	}
	return c, nil
}

// blob returns the file that a descriptor describes.
func (a *Archive) blob(d descriptor, what string) (entry, error) {
	e, ok := a.find(blobPath(d.Digest))
	switch {
	case !ok:
		return e, notFound(what, d.Digest)
	case e.digest != d.Digest || e.size != d.Size:
		return e, fmt.Errorf("its %s %s is damaged; copy or create the archive again", what, d.Digest)
	}
	return e, nil
}

func notFound(what, name string) error {
	return fmt.Errorf("its %s %s is missing from the archive, which is truncated or incomplete", what, name)
}

func blobPath(digest string) string { return "blobs/" + strings.Replace(digest, ":", "/", 1) }

// addBlob adds a file of the archive to an image.
func (a *Archive) addBlob(image *Image, digest, mediaType string, e entry) {
	image.blobs[digest] = blob{mediaType: mediaType, size: e.size,
		open: func() io.ReadSeeker { return io.NewSectionReader(a.file, e.offset, e.size) }}
}

func (i *Image) addGenerated(digest, mediaType string, data []byte) {
	i.blobs[digest] = blob{mediaType: mediaType, size: int64(len(data)),
		open: func() io.ReadSeeker { return bytes.NewReader(data) }}
}

func (a *Archive) decode(e entry, into any) error {
	data, err := a.document(e)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

// Pinned returns the names of the image with the digest of its manifest in place of the
// tag, as a manifest of a pod may name it.
func (i *Image) Pinned() (names []string) {
	for _, name := range i.Names {
		names = append(names, withDigest(name, i.root.Digest))
	}
	return names
}

// Size returns the total size of the image's blobs in bytes.
func (i *Image) Size() (n int64) {
	for _, b := range i.blobs {
		n += b.size
	}
	return n
}

package archive

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// dockerEntry is an image in the manifest.json of docker save.
type dockerEntry struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// dockerManifest returns the entries of docker's manifest.json, none without one.
func (a *Archive) dockerManifest() (list []dockerEntry, err error) {
	e, ok := a.find("manifest.json")
	if !ok {
		return nil, nil
	}
	if err := a.decode(e, &list); err != nil {
		return nil, fmt.Errorf("failed to read the archive's manifest.json: %w", err)
	}
	return list, nil
}

// dockerImage returns an image of docker's format, with a generated manifest.
func (a *Archive) dockerImage(d *dockerEntry, p Platform) (*Image, error) {
	image := &Image{Names: d.RepoTags, blobs: map[string]blob{}}
	fault := func(err error) (*Image, error) {
		return nil, fmt.Errorf("image %s of the archive: %w", strings.Join(append(d.RepoTags, d.Config)[:1], ""), err)
	}
	e, ok := a.find(d.Config)
	if !ok {
		return fault(notFound("configuration", d.Config))
	}
	config, err := a.config(e, p)
	if err != nil {
		return fault(err)
	}
	if len(config.RootFS.DiffIDs) != len(d.Layers) {
		return fault(fmt.Errorf("it lists %d layers, its configuration %d", len(d.Layers), len(config.RootFS.DiffIDs)))
	}
	image.ID = e.digest
	a.addBlob(image, e.digest, typeConfig, e)
	doc := document{SchemaVersion: 2, MediaType: typeManifest,
		Config: &descriptor{MediaType: typeConfig, Digest: e.digest, Size: e.size}, Layers: []descriptor{}}
	for i, name := range d.Layers {
		e, ok := a.find(name)
		if !ok {
			return fault(notFound("layer", name))
		}
		kind, err := a.layerType(e)
		if err != nil {
			return fault(err)
		}
		if kind == typeLayer && e.digest != config.RootFS.DiffIDs[i] {
			return fault(fmt.Errorf("its layer %s is damaged; copy or create the archive again", name))
		}
		a.addBlob(image, e.digest, kind, e)
		doc.Layers = append(doc.Layers, descriptor{MediaType: kind, Digest: e.digest, Size: e.size})
	}
	data, err := json.Marshal(doc)
	if err != nil {
		return fault(err)
	}
	sum := sha256.Sum256(data)
	image.root = descriptor{MediaType: typeManifest, Digest: "sha256:" + hex.EncodeToString(sum[:]),
		Size: int64(len(data))}
	image.addGenerated(image.root.Digest, typeManifest, data)
	return image, nil
}

// layerType detects by its first bytes how a layer is compressed.
func (a *Archive) layerType(e entry) (string, error) {
	var begin [4]byte
	n, err := io.NewSectionReader(a.file, e.offset, e.size).Read(begin[:])
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	switch text := string(begin[:n]); {
	case strings.HasPrefix(text, "\x1f\x8b"):
		return typeLayer + "+gzip", nil
	case strings.HasPrefix(text, "\x28\xb5\x2f\xfd"):
		return typeLayer + "+zstd", nil
	}
	return typeLayer, nil
}

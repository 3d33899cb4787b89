package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
)

// The media types of Docker's image manifest version 2, schema 2, which all runtimes know.
const (
	typeManifest  = "application/vnd.docker.distribution.manifest.v2+json"
	typeConfig    = "application/vnd.docker.container.image.v1+json"
	typeLayer     = "application/vnd.docker.image.rootfs.diff.tar"
	typeGzipLayer = typeLayer + ".gzip"
)

// Image is a container image for Linux. It is a value: a changed copy is another image.
type Image struct {
	Architecture string // in Go's words, such as amd64
	Config       Config
	Layers       []Layer // from the lowest
}

// Config is what an image reports about its containers.
type Config struct {
	User       string            `json:",omitempty"`
	Env        []string          `json:",omitempty"`
	Entrypoint []string          `json:",omitempty"`
	Cmd        []string          `json:",omitempty"`
	Labels     map[string]string `json:",omitempty"`
}

// Layer is one layer of an image.
type Layer struct {
	Descriptor
	Data   []byte // as a registry serves it
	diffID string // digest of the uncompressed tar
}

// Descriptor refers to a part of an image.
type Descriptor struct {
	MediaType   string            `json:"mediaType"`
	Size        int64             `json:"size"`
	Digest      string            `json:"digest"`
	Platform    *Platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Platform is what an image runs on.
type Platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

// PlainLayer returns a layer that is served without compression. Compressing a large program
// takes seconds, and reading it from loopback does not.
func PlainLayer(archive []byte) Layer {
	d := describe(typeLayer, archive)
	return Layer{Descriptor: d, Data: archive, diffID: d.Digest}
}

// GzipLayer returns a layer that is served compressed, as almost all are.
func GzipLayer(archive []byte) (Layer, error) {
	var data bytes.Buffer
	w, err := gzip.NewWriterLevel(&data, gzip.BestSpeed)
	if err != nil {
		return Layer{}, err
	}
	if _, err := w.Write(archive); err != nil {
		return Layer{}, err
	}
	if err := w.Close(); err != nil {
		return Layer{}, err
	}
	return Layer{Descriptor: describe(typeGzipLayer, data.Bytes()), Data: data.Bytes(), diffID: Digest(archive)}, nil
}

// WithLayer returns the image with one more layer on top.
func (i Image) WithLayer(l Layer) Image {
	i.Layers = append(slices.Clip(i.Layers), l)
	return i
}

// ConfigFile returns the configuration, whose digest is the image's ID.
func (i Image) ConfigFile() []byte {
	var file struct {
		Platform
		Config Config `json:"config"`
		RootFS struct {
			Type    string   `json:"type"`
			DiffIDs []string `json:"diff_ids"`
		} `json:"rootfs"`
	}
	file.Platform, file.Config = i.platform(), i.Config
	file.RootFS.Type, file.RootFS.DiffIDs = "layers", []string{}
	for _, l := range i.Layers {
		file.RootFS.DiffIDs = append(file.RootFS.DiffIDs, l.diffID)
	}
	return encode(file)
}

// ID returns the digest of the configuration.
func (i Image) ID() string { return Digest(i.ConfigFile()) }

// Manifest returns the manifest, whose digest is the image's.
func (i Image) Manifest() []byte {
	var manifest struct {
		SchemaVersion int          `json:"schemaVersion"`
		MediaType     string       `json:"mediaType"`
		Config        Descriptor   `json:"config"`
		Layers        []Descriptor `json:"layers"`
	}
	manifest.SchemaVersion, manifest.MediaType = 2, typeManifest
	manifest.Config, manifest.Layers = describe(typeConfig, i.ConfigFile()), []Descriptor{}
	for _, l := range i.Layers {
		manifest.Layers = append(manifest.Layers, l.Descriptor)
	}
	return encode(manifest)
}

// Descriptor refers to the image's manifest.
func (i Image) Descriptor() Descriptor {
	d, p := describe(typeManifest, i.Manifest()), i.platform()
	d.Platform = &p
	return d
}

func (i Image) platform() Platform { return Platform{Architecture: i.Architecture, OS: "linux"} }

// Blobs returns the manifest, the configuration and the layers by digest.
func (i Image) Blobs() map[string][]byte {
	blobs := map[string][]byte{i.Descriptor().Digest: i.Manifest(), i.ID(): i.ConfigFile()}
	for _, l := range i.Layers {
		blobs[l.Digest] = l.Data
	}
	return blobs
}

// Digest returns the SHA-256 digest of data with its prefix.
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func describe(mediaType string, data []byte) Descriptor {
	return Descriptor{MediaType: mediaType, Size: int64(len(data)), Digest: Digest(data)}
}

// encode returns v as JSON. All values of this package can be encoded.
func encode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}

// File is one file of a layer: a directory if its name ends in a slash, a symbolic link if
// Link is set, else a regular file.
type File struct {
	Name, Link string
	Data       []byte
	Mode       int64 // 0755 if zero
}

// Tar returns a tar archive of the files.
func Tar(files []File) ([]byte, error) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, f := range files {
		h := &tar.Header{Name: f.Name, Mode: f.Mode, Size: int64(len(f.Data)), Typeflag: tar.TypeReg}
		if h.Mode == 0 {
			h.Mode = 0o755
		}
		switch {
		case f.Link != "":
			h.Typeflag, h.Linkname = tar.TypeSymlink, f.Link
		case strings.HasSuffix(f.Name, "/"):
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.Data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return archive.Bytes(), nil
}

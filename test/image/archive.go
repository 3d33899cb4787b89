package image

import (
	"maps"
	"slices"
	"strings"
)

// DockerArchive returns images as docker save writes them, by reference.
func DockerArchive(images map[string]Image) ([]byte, error) {
	type entry struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	var list []entry
	var files []File
	written := map[string]bool{}
	add := func(name string, data []byte) string {
		if !written[name] {
			written[name] = true
			files = append(files, File{Name: name, Data: data, Mode: 0o644})
		}
		return name
	}
	for _, ref := range slices.Sorted(maps.Keys(images)) {
		img := images[ref]
		e := entry{Config: add(img.ID(), img.ConfigFile()), RepoTags: []string{ref}}
		for _, l := range img.Layers {
			name := strings.TrimPrefix(l.Digest, "sha256:") + ".tar"
			if l.MediaType == typeGzipLayer {
				name += ".gz"
			}
			e.Layers = append(e.Layers, add(name, l.Data))
		}
		list = append(list, e)
	}
	add("manifest.json", encode(list))
	return Tar(files)
}

// Layout returns the files of an OCI layout with the blobs of the images and with an index of
// the descriptors.
func Layout(index []Descriptor, images ...Image) map[string][]byte {
	files := map[string][]byte{
		"oci-layout": []byte(`{"imageLayoutVersion":"1.0.0"}`),
		"index.json": encode(Index(index)),
	}
	for _, img := range images {
		for digest, data := range img.Blobs() {
			files["blobs/"+strings.Replace(digest, ":", "/", 1)] = data
		}
	}
	return files
}

// TypeIndex is the media type of an Index.
const TypeIndex = "application/vnd.oci.image.index.v1+json"

// Index is an OCI index of images, such as those of one name for several platforms.
type Index []Descriptor

// MarshalJSON returns the index as a document.
func (x Index) MarshalJSON() ([]byte, error) {
	return encode(struct {
		SchemaVersion int          `json:"schemaVersion"`
		MediaType     string       `json:"mediaType"`
		Manifests     []Descriptor `json:"manifests"`
	}{2, TypeIndex, x}), nil
}

package registry

import (
	"bytes"
	"encoding/json"
)

// The media types of manifests.
const (
	TypeManifest       = "application/vnd.oci.image.manifest.v1+json"
	TypeIndex          = "application/vnd.oci.image.index.v1+json"
	typeDockerManifest = "application/vnd.docker.distribution.manifest.v2+json"
	typeDockerIndex    = "application/vnd.docker.distribution.manifest.list.v2+json"
)

// Descriptor refers to a manifest or a blob.
type Descriptor struct {
	MediaType string `json:"mediaType"`
	// Digest is ALGORITHM:HEX.
	Digest string `json:"digest"`
	// Size is in bytes.
	Size         int64             `json:"size"`
	ArtifactType string            `json:"artifactType,omitempty"`
	Annotations  map[string]string `json:"annotations,omitempty"`
	// Platform is set in an index of images for several platforms.
	Platform *Platform `json:"platform,omitempty"`
}

// Platform is what an image runs on, in Go's words.
type Platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
	Variant      string `json:"variant,omitempty"`
}

// Manifest is a manifest of an image or artifact, or an index.
type Manifest struct {
	// MediaType is the one with which the registry serves it.
	MediaType string `json:"-"`
	// Digest is that of Data, ALGORITHM:HEX.
	Digest string `json:"-"`
	// Data is the manifest as the registry serves it.
	Data []byte `json:"-"`

	ArtifactType string            `json:"artifactType"`
	Config       Descriptor        `json:"config"`
	Layers       []Descriptor      `json:"layers"`
	Manifests    []Descriptor      `json:"manifests"` // of an index
	Annotations  map[string]string `json:"annotations"`
}

// IsIndex reports whether it lists other manifests.
func (m *Manifest) IsIndex() bool { return m.MediaType == TypeIndex || m.MediaType == typeDockerIndex }

// maxValues limits the values in a manifest: a few bytes make a descriptor of 72 bytes.
const maxValues = 20_000

// hasManyValues reports whether JSON may have more than maxValues values.
func hasManyValues(data []byte) bool { return bytes.Count(data, []byte{','}) > maxValues }

func parseManifest(mediaType, digest string, data []byte) (Manifest, error) {
	if hasManyValues(data) {
		return Manifest{}, errorf(ErrTooLarge, "the manifest %s has more than %d values", digest, maxValues)
	}
	m := Manifest{}
	if err := json.Unmarshal(data, &m); err != nil {
		return Manifest{}, errorf(nil, "the manifest %s is not JSON: %s", digest, printable(err.Error()))
	}
	m.MediaType, m.Digest, m.Data = mediaType, digest, data
	return m, nil
}

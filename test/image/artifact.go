package image

// typeOCIManifest is the media type of an artifact's manifest.
const typeOCIManifest = "application/vnd.oci.image.manifest.v1+json"

// The annotations of the layers of artifacts, and the empty configuration.
const (
	AnnotationTitle = "org.opencontainers.image.title"
	TypeEmpty       = "application/vnd.oci.empty.v1+json"
)

// Artifact is an OCI artifact: layers of any type with a manifest. It is a value.
type Artifact struct {
	// Type is the type of the artifact, empty for none.
	Type string
	// Config is the blob of the configuration; the zero value is the empty one.
	Config      Layer
	Layers      []Layer
	Annotations map[string]string
}

// Blob returns a layer of any media type; title is the name of its file, empty for none.
func Blob(mediaType, title string, data []byte) Layer {
	l := Layer{Descriptor: describe(mediaType, data), Data: data}
	if title != "" {
		l.Annotations = map[string]string{AnnotationTitle: title}
	}
	return l
}

func (a Artifact) config() Layer {
	if a.Config.Digest == "" {
		return Blob(TypeEmpty, "", []byte("{}"))
	}
	return a.Config
}

// Manifest returns the manifest, whose digest is the artifact's.
func (a Artifact) Manifest() []byte {
	manifest := struct {
		SchemaVersion int               `json:"schemaVersion"`
		MediaType     string            `json:"mediaType"`
		ArtifactType  string            `json:"artifactType,omitempty"`
		Config        Descriptor        `json:"config"`
		Layers        []Descriptor      `json:"layers"`
		Annotations   map[string]string `json:"annotations,omitempty"`
	}{2, typeOCIManifest, a.Type, a.config().Descriptor, []Descriptor{}, a.Annotations}
	for _, l := range a.Layers {
		manifest.Layers = append(manifest.Layers, l.Descriptor)
	}
	return encode(manifest)
}

// PushArtifact makes an artifact available under ref, whatever host ref names, and
// returns its digest.
func (r *Registry) PushArtifact(ref string, a Artifact) (digest string, err error) {
	blobs := map[string][]byte{a.config().Digest: a.config().Data}
	for _, l := range a.Layers {
		blobs[l.Digest] = l.Data
	}
	root := describe(typeOCIManifest, a.Manifest())
	return root.Digest, r.push(ref, root, a.Manifest(), blobs)
}

package manifest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"github.com/podstead/podstead/internal/registry"
)

// ArtifactRegistry reads artifacts. *registry.Client implements it.
type ArtifactRegistry interface {
	// Resolve returns the manifest that a reference names now.
	Resolve(ctx context.Context, r registry.Reference, credentials ...registry.Credential) (registry.Descriptor, error)
	// FetchManifest returns the manifest of a reference with a digest.
	FetchManifest(ctx context.Context, r registry.Reference, limit int64,
		credentials ...registry.Credential) (registry.Manifest, error)
	// FetchBlob returns a blob of the reference's repository.
	FetchBlob(ctx context.Context, r registry.Reference, blob registry.Descriptor, limit int64,
		credentials ...registry.Credential) ([]byte, error)
}

// ArtifactCredentials finds the credentials for a repository. With an error about some
// it also returns the others.
type ArtifactCredentials interface {
	Credentials(ctx context.Context, r registry.Reference) ([]registry.Credential, error)
}

// maxArtifactManifest is the maximum size of an artifact's manifest, in bytes.
const maxArtifactManifest = 4 << 20

// Artifact is a revision of an artifact that was read and is not in effect yet.
type Artifact struct {
	// Reference has the digest to which the tag was resolved.
	Reference registry.Reference
	// Credentials are those for its repository.
	Credentials []registry.Credential
}

// ociResponse is one of: the files of an artifact, no change since the last one, an
// artifact with a fault, or an error if it could not be read now.
type ociResponse struct {
	// digest is empty if the artifact is to be read again, whatever its digest.
	digest    string
	files     []artifactFile
	unchanged bool
	fault     *Fault
	err       error
}

// artifactFetcher reads one artifact.
type artifactFetcher struct {
	reference   registry.Reference
	registry    ArtifactRegistry
	credentials ArtifactCredentials
	verify      func(ctx context.Context, artifact Artifact) error
	// digest is that of the last response with files or a fault.
	digest string
}

// fetch resolves the reference, and reads the artifact if its digest is another one than
// at the last call.
func (f *artifactFetcher) fetch(ctx context.Context) ociResponse {
	logins, lookupErr := f.credentials.Credentials(ctx, f.reference)
	response := f.fetchWith(ctx, logins)
	if lookupErr != nil && errors.Is(response.err, registry.ErrUnauthorized) {
		response.err = fmt.Errorf("%w; credential lookup failed: %w", response.err, lookupErr)
	}
	if response.err == nil {
		f.digest = response.digest
	}
	return response
}

func (f *artifactFetcher) fetchWith(ctx context.Context, logins []registry.Credential) ociResponse {
	digest := f.reference.Digest
	if digest == "" {
		found, err := f.registry.Resolve(ctx, f.reference, logins...)
		if err != nil {
			return ociResponse{err: err}
		}
		digest = found.Digest
	}
	if digest == f.digest {
		return ociResponse{digest: digest, unchanged: true}
	}
	at := f.reference.WithDigest(digest)
	if f.verify != nil {
		if err := f.verify(ctx, Artifact{Reference: at, Credentials: logins}); err != nil {
			if errors.Is(err, registry.ErrUnreachable) {
				return ociResponse{err: err}
			}
			var fault Fault
			if !errors.As(err, &fault) {
				fault = Fault{Problem: err.Error()}
			}
			return ociResponse{fault: &fault}
		}
	}
	files, fault, err := f.read(ctx, at, logins)
	switch {
	case errors.Is(err, registry.ErrTooLarge):
		// Nothing but another digest can help.
		fault = &Fault{Problem: err.Error(), Remedy: "split it into several artifacts"}
	case err != nil:
		return ociResponse{err: err}
	}
	return ociResponse{digest: digest, files: files, fault: fault}
}

// read reads the files of the artifact with that digest.
func (f *artifactFetcher) read(ctx context.Context, at registry.Reference,
	logins []registry.Credential) ([]artifactFile, *Fault, error) {
	manifest, err := f.registry.FetchManifest(ctx, at, maxArtifactManifest, logins...)
	if err != nil {
		return nil, nil, err
	}
	if manifest.IsIndex() {
		part := ofPlatform(manifest.Manifests)
		if part == nil {
			return nil, &Fault{Problem: "is an index of images of which none is for " + runtime.GOOS + "/" + runtime.GOARCH,
				Remedy: "push one artifact, or an image for this platform"}, nil
		}
		if manifest, err = f.registry.FetchManifest(ctx, at.WithDigest(part.Digest), maxArtifactManifest,
			logins...); err != nil {
			return nil, nil, err
		}
	}
	if len(manifest.Layers) > maxArtifactLayers {
		return nil, &Fault{Problem: fmt.Sprintf("has more than %d layers", maxArtifactLayers),
			Remedy: "push an archive of the manifests, or several artifacts"}, nil
	}
	var collected artifactFiles
	left := int64(MaxUnitSize)
	for i := range manifest.Layers {
		layer := &manifest.Layers[i]
		form, name := formOf(layer, i)
		switch form {
		case ignoredLayer:
			continue
		case unsupportedLayer:
			return nil, &Fault{Problem: fmt.Sprintf("layer %d has the unsupported media type %q", i+1, layer.MediaType),
				Remedy: "push it as tar+gzip"}, nil
		}
		data, err := f.registry.FetchBlob(ctx, at, *layer, left, logins...)
		if err != nil {
			return nil, nil, fmt.Errorf("layer %d: %w", i+1, err)
		}
		left -= int64(len(data))
		if fault := collected.addLayer(form, name, i, data); fault != nil {
			return nil, fault, nil
		}
	}
	if len(collected.files) == 0 {
		return nil, &Fault{
			Problem: "contains no manifest",
			Remedy: "its layers must be .yaml, .yml or .json files with a title, or tar or tar+gzip archives of them; to " +
				"declare no pods, push a PodList with items: []",
		}, nil
	}
	return collected.sorted(), nil, nil
}

// ofPlatform returns the manifest of an index for this machine, or the only one, nil if
// there is none. Attestations have an unknown platform.
func ofPlatform(manifests []registry.Descriptor) *registry.Descriptor {
	var candidates []*registry.Descriptor
	for i := range manifests {
		m := &manifests[i]
		if m.Platform == nil || m.Platform.OS != "unknown" {
			candidates = append(candidates, m)
		}
	}
	if len(candidates) == 1 {
		return candidates[0]
	}
	i := slices.IndexFunc(candidates, func(m *registry.Descriptor) bool {
		return m.Platform != nil && m.Platform.OS == runtime.GOOS && m.Platform.Architecture == runtime.GOARCH
	})
	if i < 0 {
		return nil
	}
	return candidates[i]
}

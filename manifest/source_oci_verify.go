package manifest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/podstead/podstead/internal/registry"
	"github.com/podstead/podstead/internal/signature"
)

const (
	// annotationSignature has the signature of a layer of simple signing.
	annotationSignature = "dev.cosignproject.cosign/signature"
	// typeBundle begins the artifact type, or the media type, of Sigstore bundles.
	typeBundle = "application/vnd.dev.sigstore.bundle"
	// maxSignatures is how many signatures of an artifact are tried.
	maxSignatures = 64
)

// SignatureRegistry is where signatures of artifacts are. *registry.Client implements it.
type SignatureRegistry interface {
	ArtifactRegistry
	// Referrers returns the manifests that refer to the one of a reference with a digest.
	Referrers(ctx context.Context, r registry.Reference, limit int64,
		credentials ...registry.Credential) ([]registry.Descriptor, error)
}

// VerifyArtifact returns a function for OCISourceOptions.Verify that requires a signature of
// cosign sign: one of simple signing, or a bundle. It is found next to the artifact in its
// repository.
func VerifyArtifact(keys Verifier, from SignatureRegistry) func(ctx context.Context, artifact Artifact) error {
	return func(ctx context.Context, artifact Artifact) error {
		v := artifactVerifier{keys: keys, from: from, artifact: artifact}
		for _, try := range []func(context.Context) error{v.simpleSigning, v.bundles} {
			switch err := try(ctx); {
			case v.valid:
				return nil
			case err != nil && !errors.Is(err, registry.ErrNotFound):
				return fmt.Errorf("cannot read the signature: %w", err)
			}
		}
		fault := Fault{
			Problem: "is not signed: there is no signature of " + artifact.Reference.String(),
			Remedy: "sign it with cosign sign and --manifest-verify-key's private key; what was accepted before " +
				"stays in effect",
		}
		if v.tried > 0 {
			fault.Problem = fmt.Sprintf("none of the %d signatures of %s is valid: the last one %s", v.tried, artifact.Reference,
				v.lastFault)
			fault.Remedy = "sign it again; what was accepted before stays in effect"
		}
		return fault
	}
}

// artifactVerifier looks for a valid signature of an artifact.
type artifactVerifier struct {
	keys     Verifier
	from     SignatureRegistry
	artifact Artifact

	valid     bool
	tried     int
	lastFault error
}

// add counts a signature with the result of its verification.
func (v *artifactVerifier) add(err error) {
	v.tried++
	v.valid = v.valid || err == nil
	v.lastFault = err
}

// addUnreadable counts a signature that cannot be read, such as one of which the registry has
// only a part: another one may be valid. It returns the errors that concern the registry.
func (v *artifactVerifier) addUnreadable(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.Is(err, registry.ErrUnreachable) || errors.Is(err, registry.ErrUnauthorized) {
		return err
	}
	v.add(fmt.Errorf("cannot be read: %w", err))
	return nil
}

// simpleSigning tries the layers of the tag that cosign gives to the signatures of a digest.
func (v *artifactVerifier) simpleSigning(ctx context.Context) error {
	at := v.artifact.Reference
	tag := at
	tag.Digest, tag.Tag = "", strings.Replace(at.Digest, ":", "-", 1)+".sig"
	found, err := v.from.Resolve(ctx, tag, v.artifact.Credentials...)
	if err != nil {
		return err
	}
	manifest, err := v.from.FetchManifest(ctx, at.WithDigest(found.Digest), maxArtifactManifest, v.artifact.Credentials...)
	if err != nil {
		return v.addUnreadable(ctx, err)
	}
	for _, layer := range manifest.Layers {
		text := layer.Annotations[annotationSignature]
		if text == "" || v.valid || v.tried == maxSignatures {
			continue
		}
		payload, err := v.from.FetchBlob(ctx, at, layer, signature.MaxSize, v.artifact.Credentials...)
		if err != nil {
			if err = v.addUnreadable(ctx, err); err != nil {
				return err
			}
			continue
		}
		v.add(v.keys.VerifyPayload(at.Digest, payload, text))
	}
	return nil
}

// bundles tries the bundles that refer to the artifact.
func (v *artifactVerifier) bundles(ctx context.Context) error {
	at := v.artifact.Reference
	referrers, err := v.from.Referrers(ctx, at, maxArtifactManifest, v.artifact.Credentials...)
	if err != nil {
		return err
	}
	for _, referrer := range referrers {
		if v.valid || v.tried == maxSignatures {
			return nil
		}
		// Others refer to the artifact as well, such as its bill of materials.
		if !strings.HasPrefix(referrer.ArtifactType, typeBundle) {
			continue
		}
		if err := v.bundle(ctx, referrer.Digest); err != nil {
			return err
		}
	}
	return nil
}

// bundle tries the bundles of the manifest with a digest. It counts at least one, so that the
// requests are limited.
func (v *artifactVerifier) bundle(ctx context.Context, digest string) error {
	at := v.artifact.Reference
	manifest, err := v.from.FetchManifest(ctx, at.WithDigest(digest), maxArtifactManifest, v.artifact.Credentials...)
	if err != nil {
		return v.addUnreadable(ctx, err)
	}
	before := v.tried
	for _, layer := range manifest.Layers {
		if !strings.HasPrefix(layer.MediaType, typeBundle) || v.valid || v.tried == maxSignatures {
			continue
		}
		data, err := v.from.FetchBlob(ctx, at, layer, signature.MaxSize, v.artifact.Credentials...)
		if err != nil {
			if err = v.addUnreadable(ctx, err); err != nil {
				return err
			}
			continue
		}
		v.add(v.keys.VerifyStatement(at.Digest, data))
	}
	if v.tried == before {
		v.add(errors.New("contains no Sigstore bundle"))
	}
	return nil
}
